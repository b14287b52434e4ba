#include "muster/base/processor_wait.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace muster {

ProcessorWait::ProcessorWait() : counters_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) { take(); }

Duration ProcessorWait::take() {
  // "RAN WAITED TURNS", the first two in nanoseconds.
  char text[96];
  const ssize_t size = ::pread(counters_.get(), text, sizeof text - 1, 0);
  if (size <= 0) return {};
  text[size] = '\0';
  int64_t waited = 0;
  if (std::sscanf(text, "%*s %" SCNd64, &waited) != 1) return {};
  const Duration now = std::chrono::nanoseconds(waited);
  return now - std::exchange(taken_, now);
}

}  // namespace muster
