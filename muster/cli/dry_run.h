#pragma once

#include <string>

#include "muster/cli/job_options.h"

namespace muster::cli {

// The same of a job on several nodes: which, started how and why. Says nothing of what the other machines alone know.
std::string dry_run_nodes(const JobPlan& plan, const Facts& facts, bool json);

// What would be started: one entry a worker with rank, cores, GPU, command and the environment that muster adds.
// Opens hwloc and NVML where binding was asked for.
Result<std::string> dry_run(const JobPlan& plan, const Facts& facts, bool json);

}  // namespace muster::cli
