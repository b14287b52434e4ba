#pragma once

#include "muster/agent/job.h"

namespace muster::agent {

// Runs the job on this node to its end: rounds of workers, restarts, signals, the report. Call it in the agent process
// (see warden.h). Blocks until nothing of the job is left; returns muster's exit code.
int run_job(const JobSpec& job, int warden_pid, int warden_pidfd);

}  // namespace muster::agent
