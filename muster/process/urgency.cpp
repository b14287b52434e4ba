#include "muster/process/urgency.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

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

// One mapping after the other, the code first: the usual limit of 8 MiB is a little less than this program has mapped.
// Not the stack: a locked one that grows beyond the limit ends the process.
void lock_what_fits() {
  const auto maps = read_file("/proc/self/maps");  // "55d0c0a00000-55d0c0b00000 r-xp …"
  if (!maps) return;
  for (const std::string_view line : split(*maps, '\n')) {
    if (line.ends_with("[stack]")) continue;
    uintptr_t begin = 0, end = 0;
    const char* last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ptr == last || std::from_chars(first.ptr + 1, last, end, 16).ec != std::errc()) continue;
    (void)::mlock(reinterpret_cast<const void*>(begin), end - begin);  // NOLINT(performance-no-int-to-ptr): from a file
  }
}

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
  if (!unlimited || ::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) lock_what_fits();
}

}  // namespace muster::process
