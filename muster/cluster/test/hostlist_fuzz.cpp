// Host lists: never more hosts than allowed, none twice, and no name that ssh could take for an option.

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "muster/cluster/hosts.h"

using namespace muster::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto names = expand_hostlist(text)) {
    if (names->empty() || names->size() > 65536) abort();
    for (const std::string& name : *names)
      if (name.empty() || name.front() == '-') abort();
  }
  if (auto hosts = parse_hosts(text)) {
    if (hosts->empty() || hosts->size() > 65536) abort();
    std::set<std::string> seen;
    for (const Host& host : *hosts) {
      if (host.name.empty() || host.name.front() == '-' || !seen.insert(host.name).second) abort();
      if (host.workers && *host.workers < 1) abort();
    }
  }
  return 0;
}
