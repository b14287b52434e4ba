// What qstat -f prints: a time that is left is never negative nor absurd, an error has words.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/cluster/pbs/time_left.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr time_t kNow = 1'800'000'000;
  constexpr auto kMost = std::chrono::hours(101 * 366 * 24);
  auto left = muster::cluster::pbs::time_left({reinterpret_cast<const char*>(data), size}, kNow);
  if (!left && left.error().message.empty()) abort();
  if (left && *left && (**left < muster::Duration::zero() || **left > kMost)) abort();
  return 0;
}
