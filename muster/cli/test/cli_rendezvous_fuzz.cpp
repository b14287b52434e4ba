#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cli/values.h"

// --rdzv-conf and --rdzv-endpoint: every key has a value, every host a name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::cli;
  if (auto conf = parse_rendezvous_conf(text)) {
    for (const auto& [key, value] : *conf) MUSTER_CHECK(!key.empty() && !value.empty());
  }
  if (auto endpoint = parse_endpoint(text, -1)) {
    MUSTER_CHECK(!endpoint->host.empty());
    MUSTER_CHECK(endpoint->port >= -1 && endpoint->port <= 65535);
  }
  return 0;
}
