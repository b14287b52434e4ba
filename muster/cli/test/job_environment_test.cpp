#include <gmock/gmock.h>

#include "muster/cli/test/plans.h"

namespace muster::cli::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Assignment some_assignment() {
  Assignment assignment;
  assignment.token = job::Token::random();
  assignment.endpoints = {"127.0.0.1:4711"};
  assignment.host = "n1";
  return assignment;
}

TEST(JobEnvironment, IsNotTouchedWhereNothingIsAskedFor) {
  Machine machine;
  machine.run({"train.py"});
  EXPECT_THAT(machine.set_ups, IsEmpty());
}

TEST(JobEnvironment, EveryOptionHasItsPlace) {
  Machine machine;
  machine.run({"--modules", "gcc, cuda/12", "--module=more", "--conda", "base", "--venv", "v", "--prologue", "a b",
               "--prologue", "c.sh", "--env", "A=1=2", "train.py"});
  ASSERT_EQ(machine.set_ups.size(), 1U);
  const environment::Setup& setup = machine.set_ups[0];
  EXPECT_THAT(setup.modules, ElementsAre("gcc", "cuda/12", "more"));
  EXPECT_EQ(setup.conda, "base");
  EXPECT_EQ(setup.venv, "v");
  EXPECT_THAT(setup.prologues, ElementsAre("a b", "c.sh"));
  EXPECT_THAT(setup.set, ElementsAre(std::pair<std::string, std::string>("A", "1=2")));
}

TEST(JobEnvironment, WhatTheSetUpLeavesIsTheWorkers) {
  Machine machine;
  machine.variables = {{"HOME", "/home/u"}, {"X", "old"}};
  machine.left_by_set_up = {{"X", "new"}, {"OMP_NUM_THREADS", "5"}};
  const job::JobSpec job = machine.run({"--prologue", "x", "--env", "Y=1", "train.py"});
  EXPECT_EQ(variable(job, "X"), "new");
  EXPECT_EQ(variable(job, "Y"), "1");
  EXPECT_EQ(variable(job, "HOME"), "/home/u");
  EXPECT_EQ(variable(job, "OMP_NUM_THREADS"), "5");
}

TEST(JobEnvironment, FilesComeBeforeOptions) {
  Machine machine;
  machine.variables = {{"HERE", "mine"}};
  machine.texts = {{"one.env", "A=file\nB=file\nHERE\n"}, {"two.env", "B=second\n"}};
  const job::JobSpec job =
      machine.run({"--env", "A=option", "--env-file", "one.env", "--env-file", "two.env", "train.py"});
  EXPECT_EQ(variable(job, "A"), "option");
  EXPECT_EQ(variable(job, "B"), "second");
  EXPECT_EQ(variable(job, "HERE"), "mine");
}

TEST(JobEnvironment, ALauncherReadsTheFilesAndLeavesTheRestToItsAgents) {
  Machine machine;
  machine.variables = {{"TMPDIR", "/fast"}};
  machine.texts = {{"one.env", "A='x y'\n"}};
  auto plan = machine.plan(Verb::kRun,
                           {"--hosts", "n1,n2", "--env-file", "one.env", "--env", "TMPDIR", "--venv", "v", "train.py"});
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(env_of(plan), ElementsAre("A=x y", "TMPDIR=/fast"));
  EXPECT_THAT(plan->for_nodes.env_files, IsEmpty());
  EXPECT_THAT(machine.set_ups, IsEmpty());
}

TEST(JobEnvironment, AnAgentTakesWhatTheLauncherHasRead) {
  Machine launcher;
  launcher.variables = {{"TMPDIR", "/fast"}};
  launcher.texts = {{"one.env", "A='x y'\n"}};
  auto whole = launcher.plan(Verb::kRun, {"--hosts", "n1,n2", "--env-file", "one.env", "--env", "TMPDIR", "train.py"});
  ASSERT_TRUE(whole) << whole.error().text();
  Machine machine;  // has neither the file nor TMPDIR
  const Assignment assignment = some_assignment();
  auto plan = machine.plan_of(whole->for_nodes, &assignment);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(variable(plan->job(), "A"), "x y");
  EXPECT_EQ(variable(plan->job(), "TMPDIR"), "/fast");
}

TEST(JobEnvironment, MistakesAreSentences) {
  Machine machine;
  machine.texts = {{"bad.env", "A=1\n\n=3\n"}};
  EXPECT_EQ(machine.error({"--env", "=1", "train.py"}), "--env: '' is not a name of a variable; write NAME=VALUE");
  EXPECT_EQ(machine.error({"--env-file", "none", "train.py"}),
            "--env-file: none: No such file or directory; give a file you may read");
  EXPECT_EQ(machine.error({"--env-file", "bad.env", "train.py"}),
            "--env-file: bad.env, line 3: '' is not a name of a variable; write NAME=VALUE");
  EXPECT_EQ(machine.error({"--modules", "a,,b", "train.py"}), "--modules: 'a,,b' has an empty name; write a,b");
  EXPECT_EQ(machine.error({"--conda", "", "train.py"}), "--conda: it is empty; leave it out");
  EXPECT_EQ(machine.error({"--prologue", " ", "train.py"}), "--prologue: there is nothing in it; leave it out");
  machine.broken_set_up = Error{ErrorKind::kUsage, "n1: --prologue `false` failed with exit code 1", {}};
  EXPECT_EQ(machine.error({"--prologue", "false", "train.py"}), "n1: --prologue `false` failed with exit code 1");
}

TEST(JobEnvironment, WhatMusterComputesIsNotGiven) {
  Machine machine;
  machine.texts = {{"one.env", "A=1\nMASTER_PORT=1\n"}};
  EXPECT_EQ(machine.error({"--env", "RANK=7", "train.py"}),
            "--env: muster sets RANK for each worker (number of this worker in the whole job, from 0); leave it out");
  for (const char* name : {"LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "ROLE_NAME", "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_SIGNALS_TO_HANDLE", "MUSTER_WORKER"})
    EXPECT_NE(machine.error({"--env", fmt::format("{}=x", name), "train.py"}), "accepted") << name;
  for (const char* name : {"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "GLOO_SOCKET_IFNAME",
                           "CUDA_VISIBLE_DEVICES", "MUSTER_ATTEMPT", "TORCHELASTIC_TIMER_FILE"})
    EXPECT_EQ(machine.error({"--env", fmt::format("{}=1", name), "train.py"}), "accepted") << name;
  auto plan = machine.plan(Verb::kRun, {"--hosts", "n1,n2", "--env-file", "one.env", "train.py"});
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(env_of(plan), ElementsAre("A=1"));
  ASSERT_EQ(plan->notes.size(), 1U);
  EXPECT_EQ(
      plan->notes[0].text,
      "--env-file: one.env: muster sets MASTER_PORT for each worker (port of this round's store); it is left out");
}

TEST(JobEnvironment, ModuleWithWhatNoPythonModuleIsCalled) {
  Machine machine;
  const job::JobSpec job = machine.run({"--module", "gcc,cuda", "--module", "nccl/2.19", "train.py"});
  EXPECT_EQ(job.command.entrypoint, "train.py");
  ASSERT_EQ(machine.set_ups.size(), 1u);
  EXPECT_THAT(machine.set_ups[0].modules, ElementsAre("gcc", "cuda", "nccl/2.19"));
  EXPECT_EQ(machine.torchrun({"--module", "a,b"}).command.entrypoint, "a,b");
}

TEST(JobEnvironment, ModuleAloneIsStillTorchrunsFlag) {
  Machine machine;
  const job::JobSpec job = machine.run({"--module", "pkg.train"});
  EXPECT_EQ(job.command.entrypoint, "pkg.train");
  EXPECT_THAT(machine.set_ups, IsEmpty());
  EXPECT_EQ(machine.error({"--module=a", "train.py"}, Verb::kTorchrun),
            "argument -m/--module: ignored explicit argument 'a'");
}

}  // namespace
}  // namespace muster::cli::test
