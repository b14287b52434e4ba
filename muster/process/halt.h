#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

#include "muster/base/clock.h"

namespace muster::process {

// Stops everything below this process with SIGSTOP, and continues exactly what it has stopped: a process that was
// stopped before stays so.
class Halt {
 public:
  // Stops all processes below this one but `spared` (those below `spared` are stopped too). Looks again until two looks
  // in a row find that no process has come, gone on or ended, so that no fork escapes. False if that has not come true
  // after `patience`: processes start others faster than they can be stopped. The time during which this process itself
  // stood still does not count. Call it again to stop what was started or continued since. Both this process and
  // `spared` must be subreapers, each in a process group without other members to be stopped.
  bool stop(Duration patience, pid_t spared = 0);
  // SIGCONT to all that stop() has stopped and that is still there.
  void resume();

 private:
  // One call of stop().
  struct Sweep {
    pid_t spared = 0;
    bool first = true;
    std::set<pid_t> seen;        // and signalled
    std::set<pid_t> stopped;     // before the sweep, by others
    std::set<pid_t> ended;       // zombies
    int64_t reaped_faults = -1;  // of `spared`
  };
  bool look(Sweep& sweep);
  void stop_process(const struct ProcStat& process, Sweep& sweep);

  std::set<pid_t> stopped_;  // by stop(), not yet continued
};

}  // namespace muster::process
