#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::process {

struct Kept {
  std::string told;     // what the job returned; empty: its process was killed
  int interrupted = 0;  // by that signal, of those sent to this process
};

// Runs `job` in a process of its own between this one and what the job starts, so that nothing of it is left when this
// one is gone, however it went. The job ends when `muster` hangs up, and then kills what it started: it is a subreaper.
// `interruptible`: SIGINT and SIGTERM end the job instead of this process, unless they are ignored or blocked. Blocks
// until the deadline at most; the job should have an earlier one. What a job that ended well has left running is this
// process' child only where this is a subreaper too.
Result<Kept> run_kept(const std::function<std::string(int muster)>& job, bool interruptible, Deadline deadline);

}  // namespace muster::process
