#include "muster/cluster/slurm/starter.h"

#include <gmock/gmock.h>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/cluster/description.h"
#include "muster/cluster/slurm/failure.h"

namespace muster::cluster::slurm {
namespace {

using namespace std::chrono_literals;
using test::contents;
using test::run_until;
using ::testing::HasSubstr;
using ::testing::Not;

// The greeting of an agent that is task `task` on `node`, as srun passes it on.
std::string greeting(int task, const std::string& node) {
  std::string text = agent_greeting();
  text.insert(text.size() - 1, " " + node);
  return fmt::format("{}: {}", task, text);
}

// srun is a stand-in here; test/slurm has the real one.
class SlurmStarterTest : public ::testing::Test {
 protected:
  void make(const std::string& srun, Options options = {}, const Environment& more = {}) {
    dir_.script("srun", "echo \"$@\" >>$DIR/log\n" + srun);
    options.program = "/opt/muster";
    options.fetch = {.endpoints = {"10.0.0.1:4711"}, .nonce = "abcd", .munge = true};
    Environment environment = {
        {"PATH", dir_.path() + ":/usr/bin:/bin"}, {"DIR", dir_.path()}, {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}};
    environment.set_all(more);
    starter_ = make_starter(loop_, options, environment, told_.handlers());
  }
  void start_two() {
    starter_->start(0, {"n1", {}}, "secret");
    starter_->start(1, {"n2", {}}, "secret");
  }
  bool until(const std::string& start) {
    return run_until(loop_, [&] { return told_.has(start); });
  }
  std::vector<std::string> calls() const {
    std::vector<std::string> lines;
    const std::string log = contents(dir_ / "log");
    for (std::string_view line : split(trim(log), '\n')) lines.emplace_back(line);
    return lines;
  }

  test::TempDir dir_;
  net::EventLoop loop_;
  test::Told told_;
  std::unique_ptr<Starter> starter_;
};

TEST_F(SlurmStarterTest, StartsOfOneTurnAreOneSrun) {
  make("exec sleep 600");
  start_two();
  ASSERT_TRUE(run_until(loop_, [&] { return contents(dir_ / "log").ends_with("\n"); }));
  EXPECT_EQ(calls().size(), 1U);
  EXPECT_THAT(calls()[0], HasSubstr("--nodelist=n1,n2 --nodes=2 --ntasks=2 "));
  EXPECT_THAT(calls()[0], ::testing::EndsWith("/opt/muster agent --fetch 10.0.0.1:4711 --nonce abcd --by munge"));
  EXPECT_THAT(calls()[0], Not(HasSubstr("secret")));
  starter_->start(2, {"n3", {}}, "");
  ASSERT_TRUE(run_until(loop_, [&] { return calls().size() == 2; }));
  EXPECT_THAT(calls()[1], HasSubstr("--nodelist=n3 --nodes=1 "));
}

TEST_F(SlurmStarterTest, NodesWithUnlikeDevicesAreOneEach) {
  dir_.script("scontrol",
              "echo '   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:3(IDX:0-2)'; echo '   Nodes=n2 CPU_IDs=0 Mem=0 "
              "GRES=gpu:1(IDX:0)'; echo '   TresPerJob=gres:gpu:4'\n");
  make("exec sleep 600", {}, {{"SLURM_GPUS_ON_NODE", "3"}});
  start_two();
  ASSERT_TRUE(run_until(loop_, [&] { return calls().size() == 2 && contents(dir_ / "log").ends_with("\n"); }));
  const std::string all = contents(dir_ / "log");
  EXPECT_THAT(all, HasSubstr("--nodelist=n1 "));
  EXPECT_THAT(all, HasSubstr("--gpus=3 /opt/muster"));
  EXPECT_THAT(all, HasSubstr("--gres=gpu:1 /opt/muster"));
}

TEST_F(SlurmStarterTest, WhatScontrolSaysHasABound) {
  dir_.script("scontrol",
              "echo '   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:3(IDX:0-2)'; echo '   Nodes=n2 CPU_IDs=0 Mem=0 "
              "GRES=gpu:1(IDX:0)'; yes | head -c 5000000\n");
  make("exec sleep 600", {}, {{"SLURM_GPUS_ON_NODE", "3"}});
  start_two();
  ASSERT_TRUE(run_until(loop_, [&] { return contents(dir_ / "log").ends_with("\n"); }));
  ASSERT_EQ(calls().size(), 1U) << "srun decides";
  EXPECT_THAT(calls()[0], HasSubstr("--nodelist=n1,n2 "));
}

TEST_F(SlurmStarterTest, WhatATaskSaysIsItsNodes) {
  make("echo '0: early' >&2; printf '" + greeting(0, "n2") + "'; printf '" + greeting(1, "n1") +
       "'; echo '1: late' >&2; exec sleep 600");
  start_two();
  EXPECT_TRUE(until("1 said early"));
  EXPECT_TRUE(until("0 said late"));
}

TEST_F(SlurmStarterTest, ItWaitsForNobodyForEver) {
  Options options;
  options.answer_timeout = 300ms;
  make("echo 'srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)' >&2; exec sleep 600",
       options);
  start_two();
  EXPECT_TRUE(until("1 progress waiting Requested nodes are busy"));
  starter_->asked(0);
  ASSERT_TRUE(until("1 failed"));
  EXPECT_EQ(told_.lines.back(),
            "1 failed srun has started no agent within 0 s (another step of the job holds it); end that step, or start "
            "it with srun --overlap (again)");
  EXPECT_FALSE(told_.has("0 failed")) << "it has asked";
}

TEST_F(SlurmStarterTest, TheEndOfOneAgentIsNotTheOthers) {
  make(
      "echo 'srun: error: n2: task 1: Exited with exit code 125' >&2; sleep 0.05; echo '1: muster: error: no key' >&2; "
      "exec sleep 600");
  start_two();
  ASSERT_TRUE(until("1 failed"));
  EXPECT_TRUE(told_.has("1 failed no key")) << told_.lines.back();
  EXPECT_FALSE(told_.lines.back().ends_with("(again)")) << "it would say the same again";
  EXPECT_FALSE(told_.has("0 failed"));
}

TEST_F(SlurmStarterTest, WhatAnAgentSaysBeforeItsEndIsNotItsLastWord) {
  make("printf '" + greeting(0, "n1") +
       "'; echo '0: making ready' >&2; until [ -e $DIR/asked ]; do sleep 0.01; done\n"
       "echo 'srun: error: n1: task 0: Exited with exit code 2' >&2; sleep 0.05\n"
       "echo '0: muster: error: line 1 failed' >&2; exec sleep 600");
  starter_->start(0, {"n1", {}}, "");
  ASSERT_TRUE(until("0 said making ready"));
  starter_->asked(0);
  dir_.script("asked", "");
  ASSERT_TRUE(until("0 failed"));
  EXPECT_EQ(told_.lines.back(), "0 failed line 1 failed");
}

TEST(TaskFailed, OfAnAgentThatSaysNothingItsExitCodeTells) {
  const TaskEnd two{.nodes = {"n1"}, .tasks = {0}, .code = 2, .how = "exit code 2"};
  EXPECT_EQ(task_failed(two, "making ready", Stage::kAsked).why.kind, ErrorKind::kUsage);
  EXPECT_EQ(task_failed(two, "", Stage::kAsked).why.kind, ErrorKind::kUsage);
  EXPECT_EQ(task_failed(two, "", Stage::kStarted).why.kind, ErrorKind::kPeer) << "it may be ENOENT of Slurm's";
  EXPECT_EQ(task_failed(two, "muster: error: no", Stage::kStarted).why.kind, ErrorKind::kUsage);
}

TEST_F(SlurmStarterTest, AMissingProgramIsSentOnce) {
  make(
      "case \"$*\" in *--bcast*) exit 3;; esac\n"
      "echo '1: slurmstepd-n2: error: execve(): /opt/muster: No such file or directory' >&2\n"
      "echo 'srun: error: n2: task 1: Exited with exit code 2' >&2; exec sleep 600");
  start_two();
  ASSERT_TRUE(until("1 failed"));
  ASSERT_EQ(calls().size(), 2U);
  EXPECT_THAT(calls()[1], HasSubstr("--nodelist=n2 "));
  EXPECT_THAT(calls()[1], HasSubstr("--bcast=/tmp/muster-"));
  EXPECT_FALSE(told_.has("0 failed"));
}

TEST_F(SlurmStarterTest, OrNeverIfThatWasAsked) {
  Options options;
  options.push = Push::kNever;
  make(
      "echo '0: slurmstepd-n1: error: execve(): /opt/muster: No such file or directory' >&2\n"
      "echo 'srun: error: n1: task 0: Exited with exit code 2' >&2; exit 2",
      options);
  starter_->start(0, {"n1", {}}, "");
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("/opt/muster: No such file or directory); install it there"));
  EXPECT_EQ(calls().size(), 1U);
}

TEST_F(SlurmStarterTest, WhatSrunSaysIsExplained) {
  make(
      "echo 'srun: error: Unable to create step for job 7: Required node not available (down, drained or reserved)' "
      ">&2; exit 1");
  start_two();
  ASSERT_TRUE(until("0 failed"));
  ASSERT_TRUE(until("1 failed srun: the node is down, drained or reserved; sinfo -R"));
  EXPECT_FALSE(told_.lines.back().ends_with("(again)"));
  starter_->start(1, {"n2", {}}, "");  // may be called again
  EXPECT_TRUE(run_until(loop_, [&] { return calls().size() == 2; }));
}

TEST_F(SlurmStarterTest, AnAbandonedStepEnds) {
  make("trap 'echo ended >>$DIR/end; exit 143' TERM; echo $$ >$DIR/pid; while :; do sleep 0.05; done");
  start_two();
  ASSERT_TRUE(run_until(loop_, [&] { return !contents(dir_ / "pid").empty(); }));
  starter_->abandon(0);
  starter_->abandon(1);
  EXPECT_TRUE(run_until(loop_, [&] { return contents(dir_ / "end") == "ended\n"; }));
  EXPECT_FALSE(told_.has("0 failed") || told_.has("1 failed"));
}

TEST_F(SlurmStarterTest, NoSrunIsAFailureOfThisMachine) {
  make("exit 0");
  std::filesystem::remove(dir_ / "srun");
  Options options;
  options.srun = "srun-that-is-not-there";
  options.fetch = {.endpoints = {"10.0.0.1:4711"}, .nonce = "abcd", .munge = true};
  starter_ = make_starter(loop_, options, {{"PATH", dir_.path()}, {"SLURM_PROCID", "0"}}, told_.handlers());
  starter_->start(0, {"n1", {}}, "");
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("srun-that-is-not-there"));
}

}  // namespace
}  // namespace muster::cluster::slurm
