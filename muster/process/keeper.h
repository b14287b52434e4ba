#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::process {

struct Kept {
  std::string told;     // what the job returned; empty: its process was killed
  int interrupted = 0;  // the signal that interrupted it; 0: none
};

// Runs `job` in a process between this one and the processes that the job starts, so that nothing of it is left if this
// process dies. The job ends when `muster` hangs up, and then kills what it started: it is a subreaper.
// `interruptible`: SIGINT and SIGTERM end the job instead of this process, unless they are ignored or blocked. Blocks
// at most until the deadline; the job should have an earlier one. Processes that a successful job has left running
// become children of this process only if it is a subreaper too.
Result<Kept> run_kept(const std::function<std::string(int muster)>& job, bool interruptible, Deadline deadline);

}  // namespace muster::process
