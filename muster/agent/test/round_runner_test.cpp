#include "muster/agent/round_runner.h"

#include <fstream>

#include "muster/agent/test/shell_workers.h"

namespace muster::agent {
namespace {

using testing::kIgnore;
using testing::kNever;
using testing::kSoon;
using testing::kWait;

class RoundRunnerTest : public testing::ShellWorkers {
 protected:
  // Starts a round of workers that run the script.
  void start(const std::string& script, int workers = 2) {
    prepare(script, workers);
    RoundRunner::Handlers handlers;
    handlers.take_signals = [this] {
      if (on_spawn_) on_spawn_();
    };
    handlers.started = [this] { events_seen_ += "started "; };
    handlers.failed = [this](const Worker& worker) {
      events_seen_ += "failed:" + std::to_string(worker.placement.rank) + " ";
    };
    handlers.ended = [this](const std::optional<Error>& error) {
      events_seen_ += "ended ";
      error_ = error;
      ended_ = true;
    };
    runner_ = std::make_unique<RoundRunner>(RoundRunner::Parts{.loop = loop_,
                                                               .job = job_,
                                                               .logs = *logs_,
                                                               .output = *output_,
                                                               .voice = voice_,
                                                               .events = *events_,
                                                               .log = console_.log()},
                                            std::move(handlers));
    runner_->start(round());
  }
  bool wait_for_end() {
    return until([&] { return ended_; });
  }
  std::vector<int> ends() {
    std::vector<int> all;
    for (const Worker& worker : runner_->crew()->workers()) all.push_back(worker.status.popen_code());
    return all;
  }
  pid_t pid_in(const std::string& file) const {
    pid_t pid = 0;
    std::ifstream(directory_.path() + "/" + file) >> pid;
    EXPECT_GT(pid, 0);
    return pid;
  }

  std::function<void()> on_spawn_;
  std::unique_ptr<RoundRunner> runner_;
  std::string events_seen_;
  std::optional<Error> error_;
  bool ended_ = false;
};

TEST_F(RoundRunnerTest, ARoundEndsWithItsLastWorker) {
  start("exit 0");
  EXPECT_TRUE(runner_->goes_on());
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "started ended ");
  EXPECT_FALSE(error_);
  EXPECT_FALSE(runner_->goes_on());
  EXPECT_FALSE(runner_->crew()->anyone_failed());
}

TEST_F(RoundRunnerTest, AFailureIsToldAtOnceAndStopsTheOthers) {
  start(std::string("if [ $RANK = 1 ]; then until [ -e 0.up ]; do :; done; exit 3; fi; ") + kWait);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "started failed:1 ended ");
  EXPECT_EQ(ends(), (std::vector<int>{-SIGTERM, 3}));
  EXPECT_TRUE(runner_->crew()->workers()[0].stop_requested);
  EXPECT_FALSE(runner_->crew()->workers()[1].stop_requested);
}

TEST_F(RoundRunnerTest, AStopPassesItsSignalAndIsNoFailure) {
  start(kWait);
  ASSERT_TRUE(until([&] { return all_up(); }));
  runner_->stop(SIGINT, kNever);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "started ended ");
  EXPECT_EQ(ends(), (std::vector<int>{-SIGINT, -SIGINT}));
}

TEST_F(RoundRunnerTest, AKillEndsTheGrace) {
  start(kIgnore);
  ASSERT_TRUE(until([&] { return all_up(); }));
  runner_->stop(SIGTERM, kNever);
  runner_->kill_now();
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(ends(), (std::vector<int>{-SIGKILL, -SIGKILL}));
}

TEST_F(RoundRunnerTest, AWorkerThatCannotBeStartedIsTheErrorOfTheRound) {
  on_spawn_ = [this] { job_.command.program = runner_->crew()->workers().empty() ? "/bin/sh" : "/nowhere/sh"; };
  start(kWait);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "ended ");
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->kind, ErrorKind::kNotFound);
  EXPECT_EQ(ends(), (std::vector<int>{-SIGKILL})) << "the one that had been started";
}

TEST_F(RoundRunnerTest, ASignalBetweenTwoWorkersStopsTheStart) {
  on_spawn_ = [this] {
    if (runner_->crew()->workers().size() == 1) runner_->stop(SIGKILL, Duration(0));
  };
  start(kWait, 3);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "ended ");
  EXPECT_FALSE(error_);
  EXPECT_EQ(runner_->crew()->workers().size(), 1U);
}

TEST_F(RoundRunnerTest, TheNextRoundHasACrewOfItsOwn) {
  start("exit $((3 - 3 * MUSTER_ROUND))", 1);
  ASSERT_TRUE(wait_for_end());
  EXPECT_TRUE(runner_->crew()->anyone_failed());
  job::Round second = round();
  second.number = 1;
  ended_ = false;
  runner_->start(second);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(events_seen_, "started failed:0 ended started ended ");
  EXPECT_FALSE(runner_->crew()->anyone_failed());
}

constexpr const char* kLeave = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >left; exit 0";

TEST_F(RoundRunnerTest, WhatAWorkerLeavesEndsWithTheRoundAndIsNamed) {
  start(kLeave, 1);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(runner_->left(), 0U);
  EXPECT_EQ(::kill(pid_in("left"), 0), -1);
  EXPECT_NE(said().find("ended 1 process that rank 0 left running: sleep"), std::string::npos) << said();
}

TEST_F(RoundRunnerTest, WhatIsKeptOutlivesARoundThatGoesWell) {
  job_.keep_children = true;
  start(kLeave, 1);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(::kill(pid_in("left"), 0), 0);
  EXPECT_EQ(said(), "");
}

TEST_F(RoundRunnerTest, WhatIsKeptEndsWithARoundThatIsStopped) {
  job_.keep_children = true;
  start(std::string("if [ $RANK = 1 ]; then ") + kWait + "; fi; " + kLeave);
  ASSERT_TRUE(until([&] { return is_up(1) && !runner_->crew()->workers()[0].running; }));
  runner_->stop(SIGTERM, kNever);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(::kill(pid_in("left"), 0), -1);
}

}  // namespace
}  // namespace muster::agent
