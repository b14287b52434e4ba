#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::process {

// A subreaper adopts every orphan below it: whatever its descendants leave behind stays findable.
Result<void> become_subreaper();

// Every live process below this one, each after its parent. One system call when there is no child at all, else a
// walk over /proc (about 6 us a process of the machine).
std::vector<pid_t> descendants();

// SIGKILLs everything below this process for which `wanted` (null: everything) and reaps it, again and again until
// nothing is left or the deadline has passed; returns what was left. Processes that fork while being killed are
// caught by stopping them first. Blocks until the deadline at most.
// One system call when there is no child at all. The caller must be a subreaper.
// Every other ended child is reaped too, wanted or not: `keep_zombies` names those whose exit status somebody in this
// process still waits for.
std::vector<pid_t> kill_descendants(Deadline deadline, const std::vector<pid_t>& keep_zombies = {},
                                    const std::function<bool(pid_t)>& wanted = nullptr);

// What runs below this process and for which `wanted`, after it had until the deadline to end by itself. Returns at once
// when nothing is left. Blocks until the deadline at most.
std::vector<pid_t> still_running(Deadline deadline, const std::function<bool(pid_t)>& wanted);

// Whether a process belongs to a worker: it is in its session, or its environment carries `marker` ("NAME=value"),
// which children inherit even through setsid() and double forks.
bool belongs_to(pid_t pid, pid_t session, const std::string& marker);

}  // namespace muster::process
