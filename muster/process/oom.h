#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::process {

// Counters of out-of-memory kills: of the cgroups this process is in (v1 memory.oom_control, v2 memory.events, every
// level up to the root that is visible) and of the host (/proc/vmstat oom_kill).
struct OomCounters {
  std::map<std::string, uint64_t> cgroups;  // by folder
  uint64_t host = 0;
};
// `root` is "" outside tests.
OomCounters read_oom_counters(const std::string& root = "");

// Was a SIGKILL between the two readings an out-of-memory kill?
enum class OomVerdict {
  kNo,
  kPossibly,  // only the host's counter, or one of a cgroup above the job's, moved: it may have been another job's
  kYes,       // the counter of the job's own cgroup moved
};
OomVerdict judge_oom(const OomCounters& before, const OomCounters& after);

}  // namespace muster::process
