#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/plan/known.h"

// --rdzv-endpoint: every host has a name. --ssh: every command has a word.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::plan;
  if (auto endpoint = parse_endpoint(text)) {
    MUSTER_CHECK(!endpoint->host.empty());
    MUSTER_CHECK(endpoint->port >= -1 && endpoint->port <= 65535);
  }
  if (auto words = split_command(text)) MUSTER_CHECK(!words->empty());
  return 0;
}
