#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cli/values.h"

// --rdzv-conf: every key has a value.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::cli;
  if (auto conf = parse_rendezvous_conf(text)) {
    for (const auto& [key, value] : *conf) MUSTER_CHECK(!key.empty() && !value.empty());
  }
  return 0;
}
