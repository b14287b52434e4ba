// Whatever bytes a worker writes and however they are cut: the console shows the same, the digest says the same, and a
// prefix template never reads out of bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/output/console_sink.h"
#include "muster/output/digest.h"
#include "muster/output/label.h"
#include "muster/output/line_splitter.h"

namespace {

using namespace muster;
using namespace muster::output;

// Cuts `bytes` into pieces of `size`, growing and shrinking.
template <typename Feed>
void in_pieces(std::string_view bytes, size_t size, const Feed& feed) {
  for (size_t turn = 0; !bytes.empty(); ++turn) {
    std::string_view piece = bytes.substr(0, 1 + (size * (turn + 1)) % 17);
    feed(piece);
    bytes.remove_prefix(piece.size());
  }
}

void check_splitter(std::string_view bytes, StreamPlan::Style style, size_t size, size_t longest) {
  LineSplitter whole(style, "[0] ", longest), pieces(style, "[0] ", longest);
  std::string expected, got;
  whole.feed(bytes, expected);
  whole.finish(expected);
  in_pieces(bytes, size, [&](std::string_view piece) { pieces.feed(piece, got); });
  pieces.finish(got);
  MUSTER_CHECK(got == expected);
  if (style == StreamPlan::Style::kRaw) MUSTER_CHECK(got == bytes);
}

void check_digest(std::string_view bytes, size_t size) {
  DigestBuilder whole, pieces;
  whole.feed(bytes, TimePoint{});
  in_pieces(bytes, size, [&](std::string_view piece) { pieces.feed(piece, TimePoint{}); });
  StderrDigest a = whole.digest(), b = pieces.digest();
  MUSTER_CHECK(a.tail == b.tail && a.exception_line == b.exception_line && a.first_error_time == b.first_error_time);
  MUSTER_CHECK(a.tail.size() <= DigestBuilder::kTail && bytes.ends_with(a.tail));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  size_t cut = data[0];
  std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  for (auto style : {StreamPlan::Style::kRaw, StreamPlan::Style::kLines, StreamPlan::Style::kTorchrun}) {
    check_splitter(bytes, style, cut, cut % 2 == 0 ? 7 : LineSplitter::kLongestLine);
  }
  check_digest(bytes, cut);
  expand_prefix(bytes, {"role", 1, 2, "host"});
  std::string repaired;
  append_valid_utf8(bytes, repaired);
  std::string again;
  append_valid_utf8(repaired, again);
  MUSTER_CHECK(again == repaired);
  MUSTER_CHECK(bytes.starts_with(fit_columns(bytes, cut)));
  return 0;
}
