#pragma once

#include <functional>

#include "muster/base/result.h"

namespace muster::agent {

// Splits this process in two. The parent stays as the *warden*: it keeps the pid the user knows, the terminal's process
// group and the exit code. The child becomes the *agent* in a session of its own, so every signal reaches it exactly
// once, through the warden. Both are subreapers and watch each other:
//   agent gone   -> its workers and their orphans fall to the warden, which SIGKILLs them and exits (125, said why);
//   warden gone  -> the agent SIGKILLs everything below it and exits.
// So SIGKILL of either leaves nothing of the job.
//
// Returns only in the warden, with the exit code for main(); `agent` runs in the child with the warden's pid and its
// return value is the agent's exit code.
int run_under_warden(const std::function<int(int warden_pid, int warden_pidfd)>& agent);

}  // namespace muster::agent
