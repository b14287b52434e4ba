#pragma once

#include <sys/types.h>

#include <string>

#include "muster/job/spec.h"
#include "muster/process/exit_status.h"

namespace muster::agent {

// To everything that a worker is: its process group, or what a container runtime keeps of it elsewhere. `leader` is the
// process that was started for it, `marker` what it has in its environment (see worker_marker()).
void signal_worker(const job::JobSpec& job, pid_t leader, const std::string& marker, int signal);

// How the worker ended, by how the process that was started for it did. Pure.
process::ExitStatus status_of_worker(const job::JobSpec& job, process::ExitStatus status);

}  // namespace muster::agent
