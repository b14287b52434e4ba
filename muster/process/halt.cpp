#include "muster/process/halt.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "muster/process/proc.h"

namespace muster::process {

bool Halt::stop(Duration patience, pid_t spared) {
  constexpr int kQuietLooks = 2;
  // A look takes milliseconds. If one took longer, this process was stopped, or had no processor: a scheduler that
  // suspends a job stops the agent, and then, in the middle of the sweep that follows from it, the warden.
  constexpr Duration kLongestLook = std::chrono::milliseconds(100);
  Duration used{};
  Sweep sweep;
  sweep.spared = spared;
  for (int quiet = 0; quiet < kQuietLooks;) {
    const TimePoint began = Clock::now();
    quiet = look(sweep) ? 0 : quiet + 1;
    used += std::min<Duration>(Clock::now() - began, kLongestLook);
    if (quiet < kQuietLooks && used > patience) return false;
  }
  return true;
}

// Whether anything has happened since the last look. A process that starts its successor and ends may be gone whenever
// its entry is read; but then it leaves a zombie, or `spared` has reaped one.
bool Halt::look(Sweep& sweep) {
  bool news = false;
  for (const ProcStat& process : tree_below(getpid(), all_processes())) {
    if (process.pid == sweep.spared) {
      news |= process.reaped_faults != sweep.reaped_faults;
      sweep.reaped_faults = process.reaped_faults;
    } else if (process.ended()) {
      news |= sweep.ended.insert(process.pid).second;
    } else if (process.state != 'T') {  // t: its tracer may let it go on at any time
      if (!sweep.seen.insert(process.pid).second) continue;
      news = true;
      stop_process(process, sweep);
    } else if (sweep.first && !stopped_.contains(process.pid)) {
      sweep.stopped.insert(process.pid);
    } else if (!sweep.stopped.contains(process.pid)) {
      stopped_.insert(process.pid);  // with its group, before it was seen
    }
  }
  sweep.first = false;
  return news;
}

// With its group, all of which the kernel stops at once: a member that forks meanwhile cannot leave a child behind that
// runs. A process with SIGSTOP pending does not fork any more.
void Halt::stop_process(const ProcStat& process, Sweep& sweep) {
  const bool own_group = process.group != getpgrp() && (sweep.spared == 0 || process.group != getpgid(sweep.spared));
  if (own_group && process.group > 1) kill(-process.group, SIGSTOP);
  kill(process.pid, SIGSTOP);
  stopped_.insert(process.pid);
}

void Halt::resume() {
  if (stopped_.empty()) return;
  for (const ProcStat& process : tree_below(getpid(), all_processes()))
    if (stopped_.contains(process.pid)) kill(process.pid, SIGCONT);
  stopped_.clear();
}

}  // namespace muster::process
