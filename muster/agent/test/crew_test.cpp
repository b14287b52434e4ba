#include "muster/agent/crew.h"

#include <unistd.h>

#include <fstream>

#include "muster/agent/test/shell_workers.h"

namespace muster::agent {
namespace {

using testing::kSoon;
using testing::kWait;

bool runs(pid_t pid) { return ::kill(pid, 0) == 0; }

class CrewTest : public testing::ShellWorkers {
 protected:
  void start(const std::string& script) {
    prepare(script);
    job_.host = "n1";
    job::Round placed = round();
    placed.first_rank = 4;
    crew_ = std::make_unique<Crew>(job_, logs_->layout(), *output_, placed, "");
    for (int i = 0; i < job_.workers; ++i) ASSERT_TRUE(crew_->start_next({}));
  }
  // Each leaves a daemon whose pid it writes to the file of its local rank.
  void start_and_leave(const std::string& exit_codes) {
    start("setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >$LOCAL_RANK.pid; set -- " + exit_codes +
          "; shift $LOCAL_RANK; exit $1");
    ASSERT_TRUE(collect_all());
  }
  bool collect_all() {
    return until([&] {
      for (Worker& worker : crew_->workers())
        if (worker.running) crew_->collect(worker);
      return crew_->running() == 0;
    });
  }
  bool both_up() {
    return until([&] { return is_up(4) && is_up(5); });
  }
  pid_t daemon(int local_rank) const {
    pid_t pid = 0;
    std::ifstream(directory_.path() + "/" + std::to_string(local_rank) + ".pid") >> pid;
    EXPECT_GT(pid, 0);
    return pid;
  }

  std::unique_ptr<Crew> crew_;
};

TEST_F(CrewTest, CollectsHowEachHasEnded) {
  start("[ $RANK = 4 ] && exit 3; kill -9 $$");
  EXPECT_EQ(crew_->running(), 2);
  ASSERT_TRUE(collect_all());
  EXPECT_TRUE(crew_->anyone_failed());
  const auto outcomes = crew_->outcomes(console_.log());
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[0].rank, 4);
  EXPECT_EQ(outcomes[0].local_rank, 0);
  EXPECT_EQ(outcomes[0].host, "n1");
  EXPECT_EQ(outcomes[0].status.code, 3);
  EXPECT_EQ(outcomes[1].status.signal, SIGKILL);
  EXPECT_FALSE(outcomes[1].stop_requested);
  EXPECT_GE(outcomes[1].ended, outcomes[1].started);
}

TEST_F(CrewTest, AProgramThatIsNotThereIsNoWorker) {
  start("exit 0");
  ASSERT_TRUE(collect_all());
  job_.command.program = "/nowhere/sh";
  crew_ = std::make_unique<Crew>(job_, logs_->layout(), *output_, round(), "");
  auto started = crew_->start_next({});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(crew_->running(), 0);
  EXPECT_TRUE(crew_->workers().empty());
}

TEST_F(CrewTest, AWorkerThatWasAskedIsNotedAsStopped) {
  start(kWait);
  ASSERT_TRUE(both_up());
  crew_->ask(crew_->workers()[0], SIGTERM, Clock::now());
  crew_->kill(crew_->workers()[1]);
  ASSERT_TRUE(collect_all());
  const auto outcomes = crew_->outcomes(console_.log());
  EXPECT_EQ(outcomes[0].status.signal, SIGTERM);
  EXPECT_TRUE(outcomes[0].stop_requested);
  EXPECT_EQ(outcomes[1].status.signal, SIGKILL);
  crew_->ask(crew_->workers()[1], SIGTERM, Clock::now());
  EXPECT_FALSE(crew_->workers()[1].stop_requested) << "it had ended";
}

TEST_F(CrewTest, ASignalThatIsPassedOnExplainsTheEnd) {
  start(kWait);
  ASSERT_TRUE(both_up());
  crew_->pass_on(SIGUSR1);
  ASSERT_TRUE(collect_all());
  for (const auto& outcome : crew_->outcomes(console_.log())) EXPECT_TRUE(outcome.passed_on);
}

TEST_F(CrewTest, KnowsTheProcessesOfItsWorkers) {
  start("sleep 1000 & echo $! >$LOCAL_RANK.child; touch $RANK.up; wait");
  ASSERT_TRUE(both_up());
  pid_t child = 0;
  std::ifstream(directory_.path() + "/1.child") >> child;
  const Worker& second = crew_->workers()[1];
  EXPECT_EQ(crew_->owner_of(child), &second);
  EXPECT_EQ(crew_->owner_of(second.child.pid), &second);
  EXPECT_EQ(crew_->owner_of(::getpid()), nullptr);
  EXPECT_EQ(crew_->find(second.child.pid), &second);
  EXPECT_EQ(crew_->find(child), nullptr);
}

TEST_F(CrewTest, WhatWorkersLeaveIsEndedByTheirOwnTimes) {
  start_and_leave("0 3");
  const TimePoint before = crew_->workers()[0].ended - Duration(1);
  EXPECT_TRUE(crew_->sweep(before, TimePoint::max(), false, Deadline::in(kSoon))) << "rank 0 has exited since";
  EXPECT_FALSE(runs(daemon(1))) << "of a worker that failed";
  EXPECT_TRUE(runs(daemon(0))) << "of a worker that exited with 0: it has longer";
  EXPECT_FALSE(crew_->sweep(TimePoint::max(), TimePoint::max(), false, Deadline::in(kSoon)));
  EXPECT_FALSE(runs(daemon(0)));
}

TEST_F(CrewTest, WhatIsKeptIsNotWaitedFor) {
  start_and_leave("0 0");
  EXPECT_FALSE(crew_->sweep(TimePoint::min(), TimePoint::min(), true, Deadline::in(kSoon)));
  EXPECT_FALSE(crew_->sweep(TimePoint::max(), TimePoint::max(), true, Deadline::in(kSoon)));
  EXPECT_TRUE(runs(daemon(0)) && runs(daemon(1)));
}

}  // namespace
}  // namespace muster::agent
