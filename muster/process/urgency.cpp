#include "muster/process/urgency.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace muster::process {
namespace {

// sched_setattr(2); glibc 2.36 does not declare it.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
constexpr uint64_t kResetOnFork = 1;
constexpr uint64_t kShortestTurn = 100'000;  // ns, the least that the kernel takes

}  // namespace

void prefer_short_turns() {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  // Whoever chose another policy knows why; and a priority above the usual would be lost to children.
  if (attributes.policy != SCHED_OTHER || attributes.nice < 0) return;
  attributes.runtime = kShortestTurn;
  attributes.flags |= kResetOnFork;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void lock_memory() {
  rlimit limit{};
  // MCL_FUTURE under a limit would make a later allocation fail.
  const bool unlimited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
  (void)::mlockall(unlimited ? MCL_CURRENT | MCL_FUTURE : MCL_CURRENT);
}

}  // namespace muster::process
