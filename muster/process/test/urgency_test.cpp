#include "muster/process/urgency.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace muster::process {
namespace {

// What sched_getattr(2) tells of this thread: the length of its turns in nanoseconds (0 before Linux 6.12).
uint64_t turn_length() {
  std::array<uint64_t, 7> attributes{};  // size and policy; flags; nice and priority; runtime; deadline; period; limits
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
  return attributes[3];
}

TEST(Urgency, ShorterTurnsAndNothingElse) {
  const uint64_t before = turn_length();
  if (before == 0) GTEST_SKIP() << "this kernel knows no turns of another length (Linux 6.12)";
  const int policy = ::sched_getscheduler(0), nice = ::getpriority(PRIO_PROCESS, 0);
  const bool chosen = policy != SCHED_OTHER || nice < 0;  // by whoever runs this: then it stays
  prefer_short_turns();
  EXPECT_EQ(turn_length(), chosen ? before : 100'000U);
  EXPECT_EQ(::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, policy);
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(turn_length() == before ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "a child has inherited it";
}

// In a child: what is locked stays so.
int status_of_locked_child(rlim_t limit) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit wanted{limit, limit};
    if (::setrlimit(RLIMIT_MEMLOCK, &wanted) != 0 && limit == RLIM_INFINITY) ::_exit(0);  // needs a privilege
    lock_memory();
    std::string status;
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("VmLck:")) status = line;
    const std::vector<char> memory(size_t{64} << 20, 'x');  // allowed, whatever the limit
#ifdef MUSTER_SANITIZED
    const bool locked = true;  // a sanitizer makes it do nothing
#else
    const bool locked = status.find(" 0 kB") == std::string::npos;
#endif
    ::_exit(memory.back() == 'x' && (locked || limit != RLIM_INFINITY) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Urgency, LocksMemoryAsFarAsTheLimitAllows) {
  EXPECT_EQ(status_of_locked_child(RLIM_INFINITY), 0);
  EXPECT_EQ(status_of_locked_child(rlim_t{1} << 20), 0) << "an allocation failed";
}

}  // namespace
}  // namespace muster::process
