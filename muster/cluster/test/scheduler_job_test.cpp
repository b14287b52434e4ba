#include "muster/cluster/scheduler_job.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::cluster {
namespace {

std::string job(const std::map<std::string, std::string>& variables, const std::string& cgroup = "0::/\n") {
  return scheduler_job(
      [&](const std::string& name) {
        auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      [&](const std::string& path) -> Result<std::string> {
        EXPECT_EQ(path, "/proc/self/cgroup");
        return cgroup;
      });
}

TEST(SchedulerJob, IsWhatItsVariablesSay) {
  EXPECT_EQ(job({}), "");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "41"}}), "Slurm job 41");
  EXPECT_EQ(job({{"SLURM_JOBID", "41"}}), "Slurm job 41");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "42"}, {"SLURM_ARRAY_JOB_ID", "41"}, {"SLURM_ARRAY_TASK_ID", "1"}}), "Slurm job 42")
      << "Slurm numbers each task of an array";
  EXPECT_EQ(job({{"SLURM_JOB_ID", "42"}, {"SLURM_JOB_ID_HET_GROUP_0", "41"}}), "Slurm job 41");
  EXPECT_EQ(job({{"PBS_JOBID", "12[3].server"}}), "PBS job 12[3].server");
}

TEST(SchedulerJob, MayBeFoundInTheCgroup) {
  EXPECT_EQ(job({}, "4:memory:/slurm/uid_1000/job_41/step_extern\n0::/\n"), "Slurm job 41");
  EXPECT_EQ(job({}, "0::/system.slice/slurmstepd.scope/job_41/step_0/user/task_0\n"), "Slurm job 41");
  EXPECT_EQ(job({}, "0::/system.slice/n1_slurmstepd.scope/job_41/step_0/user/task_0\n"), "Slurm job 41");
  EXPECT_EQ(job({}, "1:cpuset:/pbs_jobs.service/jobid/12.server\n"), "PBS job 12.server");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "7"}}, "0::/slurm/job_41\n"), "Slurm job 7") << "variables decide";
  for (const char* none : {"", "0::", "x", "0::/user.slice/job_41", "0::/slurm/job_x", "0::/pbs/jobid/"})
    EXPECT_EQ(job_of_cgroup(none), "") << none;
}

}  // namespace
}  // namespace muster::cluster
