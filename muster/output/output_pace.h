#pragma once

#include <optional>

#include "muster/base/clock.h"

namespace muster::output {

// How much of its time a launcher gives to the nodes' output. What it takes for that it leaves to everything else
// afterwards; and where processors are scarce, several times what it had to wait for one: a process that takes no more
// than its share is let in at once when something happens, one that wants more waits for its turn. Pure.
class OutputPace {
 public:
  // From `began` to `ended` output was forwarded; `waited`: for a processor, since the last call. Says until when to
  // rest, or nothing: go on.
  std::optional<TimePoint> worked(TimePoint began, TimePoint ended, Duration waited);

 private:
  Duration debt_{};    // not rested yet
  TimePoint counted_;  // until when
};

}  // namespace muster::output
