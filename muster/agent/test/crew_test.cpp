#include "muster/agent/crew.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <fstream>
#include <thread>

#include "muster/output/console.h"
#include "muster/output/test/output_harness.h"
#include "muster/process/descendants.h"

namespace muster::agent {
namespace {

using output::testing::TemporaryDirectory;

constexpr auto kSoon = std::chrono::seconds(30);

template <typename Condition>
bool wait_until(Condition condition) {
  for (Deadline deadline = Deadline::in(kSoon); !condition(); std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    if (deadline.passed()) return false;
  return true;
}

bool runs(pid_t pid) { return ::kill(pid, 0) == 0; }

// Workers of /bin/sh; each leaves a daemon whose pid it writes to the file of its rank.
class CrewTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(process::become_subreaper()); }
  void TearDown() override {
    process::kill_descendants(Deadline::in(kSoon));
    ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  }

  void start(const std::string& exit_codes) {
    const std::string script = "cd " + directory_.path() +
                               "; setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >$RANK.pid; set -- " +
                               exit_codes + "; shift $RANK; exit $1";
    job_.command.program = "/bin/sh";
    job_.command.argv = {"sh", "-c", script};
    job_.command.template_from = job_.command.argv.size();
    job_.workers = 2;
    job_.environment = {{"PATH", "/usr/bin:/bin"}};
    job_.output.log_dir = "/dev/null";
    job_.output.inherit_plain_streams = true;
    layout_.emplace(*output::LogLayout::create(job_));
    output_ = std::make_unique<output::Output>(loop_, console_, job_, *layout_);
    crew_ = std::make_unique<Crew>(job_, *layout_, *output_, job::Round{.world_size = 2, .job = "crew-test"}, "");
    for (int i = 0; i < job_.workers; ++i) ASSERT_TRUE(crew_->start_next({}));
    for (Worker& worker : crew_->workers()) ASSERT_TRUE(wait_until([&] { return crew_->collect(worker); }));
  }

  pid_t daemon(int rank) const {
    pid_t pid = 0;
    std::ifstream(directory_.path() + "/" + std::to_string(rank) + ".pid") >> pid;
    EXPECT_GT(pid, 0);
    return pid;
  }

  TemporaryDirectory directory_;
  net::EventLoop loop_;
  output::Console console_{loop_, output::Console::Options{}};
  job::JobSpec job_;
  std::optional<output::LogLayout> layout_;
  std::unique_ptr<output::Output> output_;
  std::unique_ptr<Crew> crew_;
};

TEST_F(CrewTest, WhatWorkersLeaveIsEndedByTheirOwnTimes) {
  start("0 3");
  const TimePoint before = crew_->workers()[0].ended - Duration(1);
  EXPECT_TRUE(crew_->sweep(before, TimePoint::max(), false, Deadline::in(kSoon))) << "rank 0 has exited since";
  EXPECT_FALSE(runs(daemon(1))) << "of a worker that failed";
  EXPECT_TRUE(runs(daemon(0))) << "of a worker that exited with 0: it has longer";
  EXPECT_FALSE(crew_->sweep(TimePoint::max(), TimePoint::max(), false, Deadline::in(kSoon)));
  EXPECT_FALSE(runs(daemon(0)));
}

TEST_F(CrewTest, WhatIsKeptIsNotWaitedFor) {
  start("0 0");
  EXPECT_FALSE(crew_->sweep(TimePoint::min(), TimePoint::min(), true, Deadline::in(kSoon)));
  EXPECT_FALSE(crew_->sweep(TimePoint::max(), TimePoint::max(), true, Deadline::in(kSoon)));
  EXPECT_TRUE(runs(daemon(0)) && runs(daemon(1)));
}

}  // namespace
}  // namespace muster::agent
