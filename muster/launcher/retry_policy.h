#pragma once

#include "muster/base/clock.h"

namespace muster::launcher {

struct RetryDecision {
  bool again = false;
  Duration after{};
  bool hopeless = false;  // do not wait for this host
};

// After an agent could not be started for the `attempts`-th time. While the job has too few nodes every host is tried
// again until the time to join is over; once it has enough, three attempts are enough. What no further attempt can mend
// (`may_try_again` is false: no such host, permission denied) is not tried again. Pure.
RetryDecision decide_retry(int attempts, bool may_try_again, bool enough_nodes);

}  // namespace muster::launcher
