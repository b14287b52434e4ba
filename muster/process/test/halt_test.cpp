#include "muster/process/halt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "muster/process/descendants.h"
#include "muster/process/proc.h"

namespace muster::process {
namespace {

using namespace std::chrono_literals;

class Halts : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(become_subreaper().ok()); }
  void TearDown() override { EXPECT_EQ(kill_descendants(Deadline::in(20s)), std::vector<pid_t>{}); }

  static pid_t start_idle() {
    pid_t child = fork();
    if (child == 0)
      while (true) pause();
    return child;
  }
  static char state_of(pid_t pid) {
    auto stat = read_proc_stat(pid);
    return stat ? stat->state : '?';
  }
  static bool becomes(pid_t pid, bool stopped) {
    for (Deadline deadline = Deadline::in(20s); !deadline.passed(); usleep(1000))
      if ((state_of(pid) == 'T') == stopped) return true;
    return false;
  }
};

// Stopped, or it was ending when it was to be stopped.
bool stands_still(pid_t pid) {
  for (Deadline deadline = Deadline::in(20s); !deadline.passed(); usleep(1000)) {
    auto stat = read_proc_stat(pid);
    if (!stat || stat->ended() || stat->state == 'T') return true;
  }
  return false;
}

TEST_F(Halts, StopsEverythingAndContinuesIt) {
  pid_t first = start_idle(), second = start_idle();
  Halt halt;
  EXPECT_TRUE(halt.stop(20s));
  EXPECT_TRUE(becomes(first, true) && becomes(second, true));
  halt.resume();
  EXPECT_TRUE(becomes(first, false) && becomes(second, false));
}

TEST_F(Halts, SparesOne) {
  pid_t spared = start_idle(), other = start_idle();
  Halt halt;
  EXPECT_TRUE(halt.stop(20s, spared));
  EXPECT_TRUE(becomes(other, true));
  EXPECT_NE(state_of(spared), 'T');
}

TEST_F(Halts, LeavesStoppedWhatWasStoppedBefore) {
  pid_t foreign = start_idle(), own = start_idle();
  kill(foreign, SIGSTOP);
  ASSERT_TRUE(becomes(foreign, true));
  Halt halt;
  EXPECT_TRUE(halt.stop(20s));
  halt.resume();
  EXPECT_TRUE(becomes(own, false));
  EXPECT_EQ(state_of(foreign), 'T');
}

// All of a node was stopped, and its processes get their SIGCONT one after the other.
TEST_F(Halts, StopsAgainWhatWasContinuedSince) {
  pid_t foreign = start_idle();
  kill(foreign, SIGSTOP);
  ASSERT_TRUE(becomes(foreign, true));
  Halt halt;
  EXPECT_TRUE(halt.stop(20s));
  kill(foreign, SIGCONT);
  ASSERT_TRUE(becomes(foreign, false));
  EXPECT_TRUE(halt.stop(20s));
  EXPECT_TRUE(becomes(foreign, true));
  halt.resume();
  EXPECT_TRUE(becomes(foreign, false)) << "it was to run: whoever stopped it has continued it";
}

// Sanitizers slow down the sweep but not the kernel's forks: the storm then has to wait for it.
#ifdef MUSTER_SANITIZED
constexpr auto kGeneration = 50'000us;
#else
constexpr auto kGeneration = 0us;
#endif

// Each process starts the next one and ends, in one group or each in a session of its own. Ends by itself: a sweep that
// fails must not take the machine with it.
void storm(bool sessions) {
  if (!sessions) setpgid(0, 0);
  for (const Deadline deadline = Deadline::in(60s); !deadline.passed();) {
    if (kGeneration > 0us) usleep(kGeneration.count());
    if (sessions) setsid();
    if (fork() > 0) _exit(0);
  }
  _exit(0);
}

TEST_F(Halts, AForkStormDoesNotEscape) {
  for (int each = 0; each < 4; ++each)
    if (fork() == 0) storm(each % 2 == 0);
  Halt halt;
  ASSERT_TRUE(halt.stop(20s));
  size_t running = 0;
  std::set<pid_t> before;
  for (const ProcStat& process : tree_below(getpid(), all_processes())) {
    before.insert(process.pid);
    running += !stands_still(process.pid);
  }
  EXPECT_EQ(running, 0U);
  usleep(20'000);
  for (const ProcStat& process : tree_below(getpid(), all_processes()))
    EXPECT_TRUE(before.contains(process.pid)) << "one of them has forked";
}

TEST_F(Halts, SaysWhenItCannotStopEverythingInTime) {
  start_idle();
  EXPECT_FALSE(Halt().stop(0s));
}

// A scheduler stops the warden while it sweeps.
TEST_F(Halts, APauseOfItsOwnIsNotAStorm) {
  constexpr Duration kPatience = 500ms;
  const pid_t sweeper = fork();
  if (sweeper == 0) {
    if (!become_subreaper().ok()) _exit(2);
    start_idle();
    while (true) {
      Halt halt;
      if (!halt.stop(kPatience)) _exit(1);
      halt.resume();
    }
  }
  for (int pause = 0; pause < 3; ++pause) {
    usleep(20'000 + pause * 333);  // not in step with the sweeps
    kill(sweeper, SIGSTOP);
    ASSERT_TRUE(becomes(sweeper, true)) << "it has ended";
    std::this_thread::sleep_for(2 * kPatience);
    kill(sweeper, SIGCONT);
    ASSERT_TRUE(becomes(sweeper, false));
  }
  usleep(20'000);
  EXPECT_EQ(waitpid(sweeper, nullptr, WNOHANG), 0) << "it took its own pause for a storm";
}

}  // namespace
}  // namespace muster::process
