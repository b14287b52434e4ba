#pragma once

#include <optional>

#include "muster/base/clock.h"

namespace muster::output {

// How much of its time a launcher gives to the nodes' output. After a time of forwarding it rests for as long, and if
// processors are scarce also for several times as long as it had to wait for one: the kernel lets a process that takes no
// more than its share run at once when something happens, and one that wants more wait for its turn. A limit of bytes in
// each turn of the loop does not do that: on a busy machine the launcher then acts on a failure after 10 ms instead of
// 0.6 ms (docs/benchmarks.md has the benchmark). Pure.
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
