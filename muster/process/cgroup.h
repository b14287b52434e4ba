#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::process {

// One hierarchy that accounts for a resource, and this process's place in it.
struct CgroupPlace {
  bool v2 = false;
  std::vector<std::string> folders;  // its own cgroup's, then every level up to the root that is mounted here
  bool operator==(const CgroupPlace&) const = default;
};

// Where a controller ("cpu", "memory") is mounted for the process, from the texts of its /proc/<pid>/cgroup and
// /proc/<pid>/mountinfo. The v2 hierarchy is always among them: only its files say whether it has the controller.
std::vector<CgroupPlace> find_cgroups(std::string_view controller, std::string_view cgroup_file,
                                      std::string_view mountinfo_file);

// The same for this process; `root` is in front of every path read and returned, "" outside tests.
std::vector<CgroupPlace> read_cgroups(std::string_view controller, const std::string& root);

// The number after a word at the start of a line: 3 for "oom_kill" in "oom 0\noom_kill 3\n".
std::optional<uint64_t> cgroup_counter(std::string_view text, std::string_view name);

// CPUs that a quota allows (1.5 for "150000 100000"); nothing for "max" and for what cannot be read.
std::optional<double> parse_cpu_max(std::string_view text);                              // v2 cpu.max
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);  // v1 cpu.cfs_{quota,period}_us

}  // namespace muster::process
