#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "muster/agent/warden_link.h"
#include "muster/base/result.h"
#include "muster/job/token.h"

namespace muster::agent {

// Splits this process in two. The parent stays as the *warden*: it keeps the pid the user knows, the terminal's process
// group and the exit code. The child becomes the *agent* in a session of its own, so every signal reaches it exactly
// once, through the warden. Both are subreapers and watch each other:
//   agent gone      -> its workers and their orphans fall to the warden, which SIGKILLs them and exits (125, said why);
//   agent hangs in the kernel after its last word -> the warden exits with its code, and leaves it behind;
//   warden gone     -> the agent SIGKILLs everything below it and exits (end_without_warden);
//   agent stopped   -> the warden stops everything below it, until the agent goes on;
//   launcher on this node stopped -> the warden stops everything below it, agent included, and does nothing itself,
//                      until the launcher goes on;
//   warden stopped  -> the agent stops everything below it and stands still, until the warden goes on (warden_watch.h).
// So SIGKILL of either leaves nothing of the job, and SIGSTOP of either lets no worker run on.
//
// Everything of the job on this node is killed at once when the lease has expired, and when a second signal has asked
// muster to end and the agent does not answer it: 2 s later if the agent is stopped or hangs in the kernel, else 10 s
// later; the exit code is then 128 + the first signal. The agent gets SIGKILL but is not waited for: one that hangs in
// the kernel ends when it can.
//
// Suspending (SIGTSTP): the agent stops its workers, then itself; when the warden sees that, it stops too, so that the
// shell has its job back. SIGCONT goes the same way.
//
// Signals that were ignored or blocked when muster was started (nohup, a background job of sh) stay so.
//
// Returns only in the warden, with the exit code for main(); `agent` runs in the child with the warden's pid and its
// return value is the agent's exit code. Call it before there are threads.
// `after_kill` runs in the warden when the agent was killed and nothing of the job is left.
struct WardenOptions {
  std::function<void()> after_kill = nullptr;
  // The agent's pulse. When it has filled in the terms of a job of several nodes the warden holds the node's lease
  // (lease_keeper.h), and ends everything, agent included, when that has expired.
  WardenLink* link = nullptr;
  job::Token token = {};  // of a job of several nodes
  // This process's parent, if it is the launcher of a job of several nodes; 0: it is not. While the launcher is stopped,
  // nothing on this node runs.
  pid_t launcher = 0;
  // In the warden, when the agent has ended by itself and before what else is below is killed: to wait for it a moment.
  std::function<void()> at_end = nullptr;
  bool keep_children = false;                  // what is below an agent that has exited with 0 is left running
  std::function<void()> after_fork = nullptr;  // in the warden: to close what is the agent's alone
};
int run_under_warden(const std::function<int(int warden_pid, int warden_pidfd)>& agent,
                     const WardenOptions& options = {});

// For the agent, when the warden's pidfd has become readable, or the warden does not do its part. `last` runs when
// everything was killed; `nothing_left`: and has ended.
[[noreturn]] void end_without_warden(const std::function<void(bool nothing_left)>& last = nullptr);

// What the warden passes on, and the agent therefore takes through its SignalQueue: every signal that can be caught
// and is not the process's own business (faults, SIGCHLD, SIGPIPE), unless this process ignores it.
std::vector<int> forwarded_signals();

}  // namespace muster::agent
