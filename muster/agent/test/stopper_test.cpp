#include "muster/agent/stopper.h"

#include "muster/agent/test/shell_workers.h"

namespace muster::agent {
namespace {

using testing::kIgnore;
using testing::kNever;
using testing::kWait;

class StopperTest : public testing::ShellWorkers {
 protected:
  void start(const char* script) {
    prepare(script);
    crew_ = std::make_unique<Crew>(job_, logs_->layout(), *output_, round(), "");
    for (int i = 0; i < job_.workers; ++i) ASSERT_TRUE(crew_->start_next({}));
    stopper_.emplace(loop_, voice_, *crew_, [](Worker&) { FAIL() << "given up"; });
    ASSERT_TRUE(until([&] { return all_up(); }));
  }
  bool collect_all() {
    return until([&] {
      for (Worker& worker : crew_->workers())
        if (worker.running) crew_->collect(worker);
      return crew_->running() == 0;
    });
  }

  std::unique_ptr<Crew> crew_;
  std::optional<Stopper> stopper_;
};

TEST_F(StopperTest, WorkersThatObeyAreNotKilled) {
  start(kWait);
  stopper_->ask(SIGINT, kNever);
  ASSERT_TRUE(collect_all());
  for (const Worker& worker : crew_->workers()) {
    EXPECT_EQ(worker.status.signal, SIGINT);
    EXPECT_TRUE(worker.stop_requested);
    EXPECT_FALSE(worker.killed);
  }
  EXPECT_EQ(said(), "");
}

TEST_F(StopperTest, TheGraceEndsWithAKill) {
  start(kIgnore);
  stopper_->ask(SIGTERM, std::chrono::milliseconds(20));
  ASSERT_TRUE(collect_all());
  for (const Worker& worker : crew_->workers()) {
    EXPECT_EQ(worker.status.signal, SIGKILL);
    EXPECT_TRUE(worker.killed);
  }
  EXPECT_NE(said().find("SIGTERM: SIGKILL"), std::string::npos) << said();
}

TEST_F(StopperTest, AskedAgainTheShorterGraceCounts) {
  start(kIgnore);
  stopper_->ask(SIGTERM, kNever);
  stopper_->ask(SIGINT, std::chrono::milliseconds(20));
  stopper_->ask(SIGTERM, kNever);
  ASSERT_TRUE(collect_all());
  for (const Worker& worker : crew_->workers()) EXPECT_TRUE(worker.killed);
}

TEST_F(StopperTest, NoGraceIsAKillAtOnceWithoutAWord) {
  start(kIgnore);
  stopper_->ask(SIGKILL, Duration(0));
  ASSERT_TRUE(collect_all());
  EXPECT_EQ(said(), "");
}

TEST_F(StopperTest, KillNowEndsTheGraceOfThoseThatWereAsked) {
  start(kIgnore);
  stopper_->kill_now();
  EXPECT_EQ(said(), "") << "nobody was asked";
  stopper_->ask(SIGTERM, kNever);
  stopper_->kill_now();
  ASSERT_TRUE(collect_all());
  EXPECT_EQ(said(), "muster: warning: second SIGINT: killing 2 workers\n");
}

}  // namespace
}  // namespace muster::agent
