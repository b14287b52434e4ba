#include "muster/launcher/retry_policy.h"

#include <algorithm>

namespace muster::launcher {
namespace {

constexpr int kAttemptsWithEnough = 3;
constexpr int kLongestPause = 5;  // seconds

}  // namespace

RetryDecision decide_retry(int attempts, bool may_try_again, bool enough_nodes) {
  if (!may_try_again) return {.again = false, .hopeless = true};
  if (enough_nodes && attempts >= kAttemptsWithEnough) return {.again = false, .hopeless = true};
  return {.again = true, .after = std::chrono::seconds(std::min(attempts, kLongestPause))};
}

}  // namespace muster::launcher
