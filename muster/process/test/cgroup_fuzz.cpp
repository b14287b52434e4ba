// The files of /proc and of cgroups: whatever they hold, folders stay below the mount and counters are what is there.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/process/cgroup.h"
#include "muster/process/proc.h"

using namespace muster::process;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t cut = text.find('\f');
  std::string_view first = text.substr(0, cut);
  std::string_view second = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);

  for (const char* controller : {"cpu", "memory"}) {
    for (const CgroupPlace& place : find_cgroups(controller, first, second)) {
      if (place.folders.empty()) abort();
      for (const std::string& folder : place.folders) {
        if (!folder.starts_with(place.folders.back())) abort();
      }
    }
  }
  cgroup_counter(text, "oom_kill");
  if (auto quota = parse_cpu_max(text); quota && !(*quota > 0)) abort();
  parse_cfs_quota(first, second);
  parse_proc_stat(text);
  has_entry(first, second);
  return 0;
}
