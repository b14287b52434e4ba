#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/process/spawn.h"

namespace muster::report {

// Why a scheduler has sent SIGTERM, for the report: "Slurm cancelled job 42", "job 42 reached its time limit in Slurm".
// Empty if this is not a Slurm job, if the signal is another one, if Slurm does not answer or if it is not ending the
// job: then the signal has come from elsewhere. Asks scontrol, and blocks for `longest` at most: call it when the job is
// over.
inline constexpr Duration kSchedulerTime = std::chrono::seconds(3);
std::string scheduler_cause(int signal, const Environment& environment, Duration longest = kSchedulerTime);

// The same from what `scontrol --oneliner show job` says: a line per job. `restarts`: how often the job had been
// requeued when it started. `in_step`: this process is in a step of srun, not in the job's script. Pure.
std::string slurm_cause(std::string_view jobs, std::string_view id, int64_t restarts, bool in_step);

}  // namespace muster::report
