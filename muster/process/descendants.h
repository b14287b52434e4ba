#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::process {

// Makes this process a subreaper. It then adopts every orphan below it, so that it can find them.
Result<void> become_subreaper();

// Every live process below this one, each after its parent. One system call if there is no child at all, else a walk
// over /proc (about 6 us per process of the machine).
std::vector<pid_t> descendants();

// SIGKILLs everything below this process for which `wanted` (null: everything) and reaps it, again and again until
// nothing is left or the deadline has passed; returns what was left. Processes that fork while being killed are
// caught by stopping them first. Blocks at most until the deadline.
// One system call if there is no child at all. The caller must be a subreaper.
// Every other ended child is reaped too, wanted or not: `keep_zombies` names those whose exit status this process
// still needs.
std::vector<pid_t> kill_descendants(Deadline deadline, const std::vector<pid_t>& keep_zombies = {},
                                    const std::function<bool(pid_t)>& wanted = nullptr);

// The wanted processes below this process that have not ended by themselves until the deadline. Returns at once if none
// is left. Blocks at most until the deadline.
std::vector<pid_t> still_running(Deadline deadline, const std::function<bool(pid_t)>& wanted);

// Whether a process belongs to a worker: it is in its session, or its environment carries `marker` ("NAME=value"),
// which children inherit even through setsid() and double forks.
bool belongs_to(pid_t pid, pid_t session, const std::string& marker);

}  // namespace muster::process
