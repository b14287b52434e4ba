#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cli/values.h"

// -r, -t, --local-ranks-filter, filters and signals: only local ranks, only the four masks.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::cli;
  for (RankSyntax syntax : {RankSyntax::kAny, RankSyntax::kTorchrun}) {
    if (auto masks = parse_stream_masks(text, syntax)) {
      for (auto [rank, mask] : masks->by_rank) MUSTER_CHECK(rank >= 0 && mask >= 0 && mask <= 3);
    }
  }
  (void)parse_ranks(text);
  (void)parse_signals(text);
  MUSTER_CHECK(!split_list(text).empty());
  return 0;
}
