#include "muster/cluster/scheduler_job.h"

#include "muster/base/strings.h"
#include "muster/cluster/adapters.h"

namespace muster::cluster {

std::string job_of_cgroup(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    // hierarchy:controllers:path
    const size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string_view::npos) continue;
    for (const Adapter* adapter : adapters())
      if (std::string job = adapter->job_of_cgroup(line.substr(colon + 1)); !job.empty()) return job;
  }
  return "";
}

std::string scheduler_job(const GetEnv& getenv, const ReadFile& read_file) {
  for (const Adapter* adapter : adapters())
    if (std::string job = adapter->job_name(getenv); !job.empty()) return job;
  auto cgroup = read_file("/proc/self/cgroup");
  return cgroup ? job_of_cgroup(*cgroup) : "";
}

}  // namespace muster::cluster
