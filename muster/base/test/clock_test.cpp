#include "muster/base/clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

namespace muster {
namespace {

// A machine that was suspended for 1000 s, as a time namespace shows it: CLOCK_BOOTTIME is ahead of all other clocks.
constexpr std::string_view kSuspended = "boottime 1000 0";
constexpr int kRefused = 2;

// In a process of its own: children of a process that has unshared its time are in the new namespace.
int look_after_suspend() {
  const pid_t outer = fork();
  if (outer == 0) {
    const TimePoint before = Clock::now();
    const int offsets = unshare(CLONE_NEWTIME) == 0 ? open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC) : -1;
    if (offsets < 0 || write(offsets, kSuspended.data(), kSuspended.size()) < 0) _exit(kRefused);
    const pid_t inner = fork();
    if (inner == 0) _exit(Clock::now() - before >= std::chrono::seconds(1000) ? 0 : 1);
    int status = -1;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : kRefused);
  }
  int status = -1;
  waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Clock, CountsTheTimeForWhichTheMachineWasSuspended) {
  const int result = look_after_suspend();
  if (result == kRefused) GTEST_SKIP() << "no namespaces permitted here: a clock of its own";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace muster
