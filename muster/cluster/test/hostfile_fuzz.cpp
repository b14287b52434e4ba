// Hostfiles: hosts are distinct, well named and have workers; errors are those of a user.

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "muster/cluster/hosts.h"

using namespace muster::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto hosts = parse_hostfile({reinterpret_cast<const char*>(data), size});
  if (!hosts) {
    if (hosts.error().kind != muster::ErrorKind::kUsage || hosts.error().message.empty()) abort();
    return 0;
  }
  std::set<std::string> seen;
  for (const Host& host : *hosts) {
    if (host.name.empty() || host.name.front() == '-' || !seen.insert(host.name).second) abort();
    if (host.workers && (*host.workers < 1 || *host.workers > 65536)) abort();
  }
  return 0;
}
