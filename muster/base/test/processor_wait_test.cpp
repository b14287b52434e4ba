#include "muster/base/processor_wait.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

// This thread on one processor, until the end.
class OneProcessor {
 public:
  OneProcessor() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

TEST(ProcessorWait, CountsTheTurnsOfOthers) {
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "this kernel does not count it";
  const OneProcessor here;
  const pid_t other = ::fork();
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) continue;
  }
  ProcessorWait wait;
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  Duration waited{};
  while (waited == Duration(0) && !deadline.passed()) waited += wait.take();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_GT(waited, Duration(0));
}

}  // namespace
}  // namespace muster
