#include "muster/output/line_splitter.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace muster::output {
namespace {

constexpr std::string_view kUp = "\x1b[A";  // the cursor, by a line

bool is_ascii(std::string_view text) {
  uint64_t seen = 0;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    seen |= word;
  }
  for (; i < text.size(); ++i) seen |= static_cast<unsigned char>(text[i]);
  return (seen & 0x8080808080808080u) == 0;
}

// Length of the UTF-8 sequence at the start of `text` if it is well formed (`valid`), else of the longest part of one
// that could have become one (at least 1).
struct Sequence {
  size_t size;
  bool valid;
};
Sequence leading_sequence(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return {1, false};
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < size; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {size, true};
}

// Copies labels and lines with plain stores: string::append twice a line costs more than the bytes themselves.
class LineCopier {
 public:
  // `expected`: of input, whose lines are rarely shorter than 64 bytes.
  LineCopier(std::string_view label, size_t expected, std::string& out) : label_(label), out_(out), used_(out.size()) {
    out_.resize(used_ + expected + (1 + expected / 64) * label.size());
  }
  ~LineCopier() { out_.resize(used_); }
  LineCopier(const LineCopier&) = delete;
  LineCopier& operator=(const LineCopier&) = delete;

  void add(const char* line, size_t size) {
    size_t need = used_ + label_.size() + size;
    if (need > out_.size()) out_.resize(need + need / 2);
    char* to = out_.data() + used_;
    std::memcpy(to, label_.data(), label_.size());
    std::memcpy(to + label_.size(), line, size);
    used_ = need;
  }

 private:
  std::string_view label_;
  std::string& out_;
  size_t used_;
};

}  // namespace

void append_valid_utf8(std::string_view text, std::string& out) {
  if (is_ascii(text)) {
    out += text;
    return;
  }
  while (!text.empty()) {
    Sequence sequence = leading_sequence(text);
    out += sequence.valid ? text.substr(0, sequence.size) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(sequence.size);
  }
}

LineSplitter::LineSplitter(StreamPlan::Style style, std::string label, size_t longest_line)
    : style_(style), label_(std::move(label)), longest_line_(longest_line) {}

void LineSplitter::feed(std::string_view bytes, std::string& out) {
  if (bytes.empty()) return;
  switch (style_) {
    case StreamPlan::Style::kRaw:
      out += bytes;
      return;
    case StreamPlan::Style::kTorchrun:
      feed_torchrun(bytes, out);
      return;
    case StreamPlan::Style::kLines:
      bool rewrites = return_ || rewritten_ || std::memchr(bytes.data(), '\r', bytes.size()) != nullptr;
      rewrites ? feed_rewriting(bytes, out) : feed_plain(bytes, out);
      return;
  }
}

// No \r anywhere: the common case, at the speed of memchr and memcpy.
void LineSplitter::feed_plain(std::string_view bytes, std::string& out) {
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  auto next_newline = [&] { return static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at))); };
  const char* newline = next_newline();
  if (newline != nullptr && (!line_.empty() || open_)) {
    extend({at, static_cast<size_t>(newline - at)}, out);
    end_line(out);
    at = newline + 1;
    newline = next_newline();
  }
  if (newline != nullptr) {
    LineCopier copier(label_, static_cast<size_t>(end - at), out);
    while (newline != nullptr && static_cast<size_t>(newline - at) <= longest_line_) {
      copier.add(at, static_cast<size_t>(newline + 1 - at));
      at = newline + 1;
      newline = next_newline();
    }
  }
  while (newline != nullptr) {  // only with lines of more than longest_line_
    extend({at, static_cast<size_t>(newline - at)}, out);
    end_line(out);
    at = newline + 1;
    newline = next_newline();
  }
  extend({at, static_cast<size_t>(end - at)}, out);
}

void LineSplitter::feed_rewriting(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    size_t stop = bytes.find_first_of("\r\n");
    std::string_view piece = bytes.substr(0, stop);
    if (!piece.empty() && std::exchange(return_, false)) line_.clear();  // written over
    extend(piece, out);
    if (stop == std::string_view::npos) return;
    if (bytes[stop] == '\r') {
      return_ = true;
      rewritten_ = true;
    } else if (rewritten_ && line_.ends_with(kUp)) {  // up and down again: it is the same line
      line_.resize(line_.size() - kUp.size());
      return_ = true;
    } else {
      end_line(out);
    }
    bytes.remove_prefix(stop + 1);
  }
}

void LineSplitter::feed_torchrun(std::string_view bytes, std::string& out) {
  if (!return_ && std::memchr(bytes.data(), '\r', bytes.size()) == nullptr && is_ascii(bytes)) {
    feed_plain(bytes, out);
    return;
  }
  while (!bytes.empty()) {
    if (std::exchange(return_, false) && bytes[0] == '\n') {  // the second half of a \r\n
      bytes.remove_prefix(1);
      continue;
    }
    size_t stop = bytes.find_first_of("\r\n");
    extend(bytes.substr(0, stop), out);
    if (stop == std::string_view::npos) return;
    bool returned = bytes[stop] == '\r';
    end_line(out);
    return_ = returned;
    bytes.remove_prefix(stop + 1);
  }
}

void LineSplitter::extend(std::string_view piece, std::string& out) {
  while (line_.size() + piece.size() > longest_line_) {
    size_t fits = longest_line_ - line_.size();
    line_ += piece.substr(0, fits);
    piece.remove_prefix(fits);
    emit(line_, out);
    out += '\n';
    open_ = false;
    line_.clear();
  }
  line_ += piece;
}

std::string_view LineSplitter::current() const {
  std::string_view text = line_;
  while (text.ends_with(kUp)) text.remove_suffix(kUp.size());
  const size_t up = text.rfind(kUp);
  return up == std::string_view::npos ? text : text.substr(up + kUp.size());
}

void LineSplitter::end_line(std::string& out) {
  emit(rewritten_ ? current() : std::string_view(line_), out);
  out += '\n';
  line_.clear();
  open_ = return_ = rewritten_ = false;
}

void LineSplitter::emit(std::string_view text, std::string& out) {
  if (!open_) out += label_;
  if (style_ == StreamPlan::Style::kTorchrun) {
    append_valid_utf8(text, out);
  } else {
    out += text;
  }
}

void LineSplitter::flush_partial(std::string& out) {
  if (line_.empty()) return;
  emit(line_, out);
  line_.clear();
  open_ = true;
}

void LineSplitter::finish(std::string& out) {
  if (line_.empty() && !open_) return;
  if (style_ == StreamPlan::Style::kTorchrun) {
    flush_partial(out);
  } else {
    end_line(out);
  }
  open_ = return_ = rewritten_ = false;
}

}  // namespace muster::output
