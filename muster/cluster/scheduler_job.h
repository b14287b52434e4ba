#pragma once

#include <string>
#include <string_view>

#include "muster/cluster/surroundings.h"

namespace muster::cluster {

// The scheduler's job that this process is in: "Slurm job 41" (of an array each task has a number of its own; of a
// heterogeneous job it is that of the first component), "PBS job 12[3].server". Empty: none is known. Variables decide;
// a process without them, such as one in a container or in a session of ssh that the scheduler has adopted, may still be
// in the job's cgroup.
std::string scheduler_job(const GetEnv& getenv, const ReadFile& read_file);

// The same of /proc/self/cgroup. Pure.
std::string job_of_cgroup(std::string_view text);

}  // namespace muster::cluster
