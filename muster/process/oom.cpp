#include "muster/process/oom.h"

#include <unistd.h>

#include <optional>

#include "muster/base/fd.h"
#include "muster/process/cgroup.h"

namespace muster::process {
namespace {

std::optional<uint64_t> kills_in(const CgroupPlace& place, const std::string& folder) {
  // The root of all v1 cgroups is not the job's: it has this file, which no other level has. (v2's has no events.)
  if (!place.v2 && access((folder + "/cgroup.sane_behavior").c_str(), F_OK) == 0) return std::nullopt;
  auto text = read_file(folder + (place.v2 ? "/memory.events" : "/memory.oom_control"));
  return text ? cgroup_counter(*text, "oom_kill") : std::nullopt;
}

// Nothing that was read is below it.
bool is_own(const std::map<std::string, uint64_t>& cgroups, const std::string& folder) {
  auto below = cgroups.lower_bound(folder + "/");
  return below == cgroups.end() || !below->first.starts_with(folder + "/");
}

}  // namespace

OomCounters read_oom_counters(const std::string& root) {
  OomCounters counters;
  for (const CgroupPlace& place : read_cgroups("memory", root)) {
    for (const std::string& folder : place.folders) {
      if (auto kills = kills_in(place, folder)) counters.cgroups[folder] = *kills;
    }
  }
  if (auto text = read_file(root + "/proc/vmstat")) counters.host = cgroup_counter(*text, "oom_kill").value_or(0);
  return counters;
}

OomVerdict judge_oom(const OomCounters& before, const OomCounters& after) {
  bool above = false;
  for (const auto& [folder, kills] : after.cgroups) {
    auto old = before.cgroups.find(folder);
    if (old == before.cgroups.end() || kills <= old->second) continue;
    if (is_own(after.cgroups, folder)) return OomVerdict::kYes;
    above = true;
  }
  return above || after.host > before.host ? OomVerdict::kPossibly : OomVerdict::kNo;
}

}  // namespace muster::process
