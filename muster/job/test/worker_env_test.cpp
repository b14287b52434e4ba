#include "muster/job/worker_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace muster::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JobSpec job_of_two() {
  JobSpec job;
  job.workers = 2;
  job.run_id = "r1";
  job.max_restarts = 3;
  job.host = "n1.site";
  job.signals_text = "SIGTERM,SIGINT";
  job.environment = {{"HOME", "/home/ada"}, {"RANK", "77"}, {"PATH", "/bin"}};
  return job;
}

Round second_round() { return {.number = 1, .restarts = 1, .master_port = 29501, .master_addr = "n1", .job = "abc"}; }

WorkerFiles error_file() { return {.error = "/logs/attempt_1/1/error.json"}; }

Placement second_worker() {
  return {.rank = 5,
          .local_rank = 1,
          .world_size = 8,
          .local_world_size = 2,
          .group_rank = 2,
          .group_world_size = 4,
          .role_rank = 3,
          .role_world_size = 6};
}

// Also proves that no name is set twice: exec would hand on both and getenv() would find either.
std::map<std::string, std::string> environment_of(const JobSpec& job, const WorkerFiles& files = error_file(),
                                                  const Placement& placement = second_worker()) {
  std::map<std::string, std::string> variables;
  for (auto& [name, value] : worker_environment(job, second_round(), placement, files))
    EXPECT_TRUE(variables.emplace(name, value).second) << name << " is set twice";
  return variables;
}

TEST(WorkerEnvironment, IsTorchrunsContractNameByName) {
  std::map<std::string, std::string> expected = {
      {"HOME", "/home/ada"},
      {"PATH", "/bin"},
      {"RANK", "5"},
      {"LOCAL_RANK", "1"},
      {"GROUP_RANK", "2"},
      {"GROUP_WORLD_SIZE", "4"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"WORLD_SIZE", "8"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "3"},
      {"ROLE_WORLD_SIZE", "6"},
      {"MASTER_ADDR", "n1"},
      {"MASTER_PORT", "29501"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "r1"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", "/logs/attempt_1/1/error.json"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
  };
  auto actual = environment_of(job_of_two());
  std::erase_if(actual, [](const auto& entry) { return entry.first.starts_with("MUSTER_"); });
  EXPECT_EQ(actual, expected);
}

TEST(WorkerEnvironment, HasOurOwnVariables) {
  auto env = environment_of(job_of_two());
  EXPECT_EQ(env["MUSTER_JOB"], "abc");
  EXPECT_EQ(env["MUSTER_WORKER"], "abc.1.5");
  EXPECT_EQ(env["MUSTER_ROUND"], "1");
  EXPECT_EQ(env["MUSTER_HOST"], "n1.site");
  EXPECT_EQ(env["MUSTER_ATTEMPT"], "0");
  EXPECT_THAT(env["MUSTER_VERSION"], testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(worker_marker(second_round(), 5), "MUSTER_WORKER=abc.1.5");
}

TEST(WorkerEnvironment, EverythingSetIsDeclared) {
  JobSpec job = job_of_two();
  job.environment = {};
  job.virtual_local_rank = true;
  for (const char* torch : {"2.0.1", "2.13.0"}) {
    job.torch_version = torch;
    for (auto& [name, value] : worker_environment(job, second_round(), second_worker(), {.timer = "/tmp/timer"})) {
      bool declared = false;
      for (const Variable& variable : declared_variables())
        declared |= variable.name == name && variable.set_by == kSetByMuster;
      EXPECT_TRUE(declared) << name;
    }
  }
}

TEST(WorkerEnvironment, NothingIsDeclaredTwiceByTheSameSetter) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Variable& variable : declared_variables())
    EXPECT_TRUE(seen.emplace(variable.name, variable.set_by).second) << variable.name;
}

TEST(WorkerEnvironment, KeepsTheSchedulersAttempt) {
  JobSpec job = job_of_two();
  job.environment.add("MUSTER_ATTEMPT", "4");
  EXPECT_EQ(environment_of(job)["MUSTER_ATTEMPT"], "4");
}

TEST(WorkerArgv, AProgramOfOurOwnIsNotShown) {
  Command command;
  command.argv = {"python", "-u", "-c", "import sys\nexec()", "x.py", "two\nlines"};
  command.template_from = 4;
  EXPECT_EQ(shown_argv(command, 0), (std::vector<std::string>{"python", "-u", "-c", "…", "x.py", "two\nlines"}));
}

TEST(WorkerEnvironment, CountsTheMustersAroundAWorker) {
  JobSpec job = job_of_two();
  EXPECT_EQ(environment_of(job)["MUSTER_DEPTH"], "1");
  job.environment.add("MUSTER_DEPTH", "1");
  EXPECT_EQ(environment_of(job)["MUSTER_DEPTH"], "2");
  job.environment.add("SLURM_JOB_ID", "12");
  EXPECT_EQ(environment_of(job)["MUSTER_DEPTH"], "1@12") << "another job of the scheduler begins anew";
  job.environment = {{"MUSTER_DEPTH", "3@12"}, {"SLURM_JOB_ID", "12"}};
  EXPECT_EQ(environment_of(job)["MUSTER_DEPTH"], "4@12");
  for (const char* nonsense : {"", "x", "-7", "@", "99999999999999999999", "given"})
    EXPECT_EQ(nesting_depth({{"MUSTER_DEPTH", nonsense}}), 0) << nonsense;
}

TEST(WorkerEnvironment, StoreInAWorker) {
  JobSpec job = job_of_two();
  job.store_host = StoreHost::kWorker;
  EXPECT_EQ(environment_of(job)["TORCHELASTIC_USE_AGENT_STORE"], "False");
}

TEST(WorkerEnvironment, ErrorFileIsSetButEmptyWithoutLogs) {
  auto env = environment_of(job_of_two(), {});
  ASSERT_TRUE(env.contains("TORCHELASTIC_ERROR_FILE"));
  EXPECT_EQ(env["TORCHELASTIC_ERROR_FILE"], "");
}

TEST(WorkerEnvironment, TimerFileOnlyWhereThereIsOne) {
  EXPECT_FALSE(environment_of(job_of_two()).contains("TORCHELASTIC_TIMER_FILE"));
  const WorkerFiles files{.timer = "/tmp/watchdog_timer_1"};
  EXPECT_EQ(environment_of(job_of_two(), files)["TORCHELASTIC_TIMER_FILE"], "/tmp/watchdog_timer_1");
}

TEST(WorkerEnvironment, NcclVariableHasTheNameOfTheTorchVersion) {
  struct Case {
    const char* version;
    const char* name;
  };
  for (Case c : {Case{"1.7.1", "NCCL_ASYNC_ERROR_HANDLING"}, Case{"1.13.0a0", "NCCL_ASYNC_ERROR_HANDLING"},
                 Case{"2.1.2+cu118", "NCCL_ASYNC_ERROR_HANDLING"}, Case{"2.2.0", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
                 Case{"2.13.0+cpu", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}, Case{"", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
                 Case{"main", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}}) {
    JobSpec job = job_of_two();
    job.torch_version = c.version;
    auto env = environment_of(job);
    EXPECT_EQ(env.count("NCCL_ASYNC_ERROR_HANDLING") + env.count("TORCH_NCCL_ASYNC_ERROR_HANDLING"), 1U) << c.version;
    EXPECT_EQ(env[c.name], "1") << c.version;
  }
}

TEST(WorkerEnvironment, NcclValueOfTheUserIsKept) {
  JobSpec job = job_of_two();
  job.environment.add("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3");
  EXPECT_EQ(environment_of(job)["TORCH_NCCL_ASYNC_ERROR_HANDLING"], "3");
}

TEST(WorkerEnvironment, CudaDevicesPassThrough) {
  EXPECT_FALSE(environment_of(job_of_two()).contains("CUDA_VISIBLE_DEVICES"));
  JobSpec job = job_of_two();
  job.environment.add("CUDA_VISIBLE_DEVICES", "4,6");
  EXPECT_EQ(environment_of(job)["CUDA_VISIBLE_DEVICES"], "4,6");
}

TEST(WorkerEnvironment, VirtualLocalRankTakesTheWorkersDevice) {
  JobSpec job = job_of_two();
  job.virtual_local_rank = true;
  auto env = environment_of(job);
  EXPECT_EQ(env["LOCAL_RANK"], "0");
  EXPECT_EQ(env["RANK"], "5");
  EXPECT_EQ(env["CUDA_VISIBLE_DEVICES"], "1");
  job.environment.add("CUDA_VISIBLE_DEVICES", "4, GPU-6f");
  EXPECT_EQ(environment_of(job)["CUDA_VISIBLE_DEVICES"], "GPU-6f");
  EXPECT_TRUE(check_environment(job).ok());
}

TEST(WorkerEnvironment, TooFewDevicesForVirtualLocalRankAreRefused) {
  JobSpec job = job_of_two();
  job.virtual_local_rank = true;
  job.environment.add("CUDA_VISIBLE_DEVICES", "4");
  auto result = check_environment(job);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(result.error().message, HasSubstr("CUDA_VISIBLE_DEVICES=4 names 1"));
}

TEST(SubstituteLocalRank, IsPythonsSafeSubstitute) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (Case c :
       {Case{"plain", "plain"}, Case{"", ""}, Case{"$local_rank", "3"}, Case{"${local_rank}", "3"},
        Case{"a${local_rank}b$local_rank", "a3b3"}, Case{"$$local_rank", "$local_rank"}, Case{"$$$local_rank", "$3"},
        Case{"$local_rank2", "$local_rank2"}, Case{"${local_rank", "${local_rank"},
        Case{"${ local_rank}", "${ local_rank}"}, Case{"$other ${HOME}", "$other ${HOME}"}, Case{"5$", "5$"},
        Case{"$", "$"}, Case{"$local_rank-x", "3-x"}, Case{"$LOCAL_RANK", "$LOCAL_RANK"}, Case{"${local_rank}}", "3}"},
        Case{"${${local_rank}", "${3"}, Case{"$1$local_rank", "$13"}}) {
    EXPECT_EQ(substitute_local_rank(c.text, 3), c.expected) << c.text;
  }
}

TEST(WorkerArgv, SubstitutesFromTheScriptOn) {
  Command command;
  command.argv = {"py$local_rank", "-u", "t$local_rank.py", "--out", "$$x${local_rank}"};
  command.template_from = 2;
  EXPECT_THAT(worker_argv(command, 1), ElementsAre("py$local_rank", "-u", "t1.py", "--out", "$x1"));
}

TEST(WorkerArgv, InjectsTheLocalRankWhereAsked) {
  Command command;
  command.argv = {"python", "-u", "t.py", "--lr", "1"};
  command.template_from = 2;
  command.local_rank_position = 3;
  command.local_rank_flag = "--local_rank";
  EXPECT_THAT(worker_argv(command, 1), ElementsAre("python", "-u", "t.py", "--local_rank=1", "--lr", "1"));
}

}  // namespace
}  // namespace muster::job
