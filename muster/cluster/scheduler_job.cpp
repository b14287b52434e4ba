#include "muster/cluster/scheduler_job.h"

#include <fmt/format.h>

#include "muster/base/strings.h"

namespace muster::cluster {
namespace {

std::string slurm_job(std::string_view id) { return fmt::format("Slurm job {}", id); }
std::string pbs_job(std::string_view id) { return fmt::format("PBS job {}", id); }

// Of one path: /slurm/uid_1000/job_41/step_0, /system.slice/slurmstepd.scope/job_41/step_0/user,
// /pbs_jobs.service/jobid/12.server.
std::string job_of_path(std::string_view path) {
  bool slurm = false, pbs = false;
  std::string_view before;
  for (std::string_view part : split(path, '/')) {
    if (slurm && part.starts_with("job_") && parse_int(part.substr(4))) return slurm_job(part.substr(4));
    if (pbs && before == "jobid" && !part.empty()) return pbs_job(part);
    slurm = slurm || part.starts_with("slurm") || part.ends_with("_slurmstepd.scope");
    pbs = pbs || part.starts_with("pbs");
    before = part;
  }
  return "";
}

}  // namespace

std::string job_of_cgroup(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    // hierarchy:controllers:path
    const size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string_view::npos) continue;
    if (std::string job = job_of_path(line.substr(colon + 1)); !job.empty()) return job;
  }
  return "";
}

std::string scheduler_job(const GetEnv& getenv, const ReadFile& read_file) {
  for (const char* name : {"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID", "SLURM_JOBID"})
    if (auto id = getenv(name); id && !id->empty()) return slurm_job(*id);
  if (auto id = getenv("PBS_JOBID"); id && !id->empty()) return pbs_job(*id);
  auto cgroup = read_file("/proc/self/cgroup");
  return cgroup ? job_of_cgroup(*cgroup) : "";
}

}  // namespace muster::cluster
