#pragma once

#include <string>

#include "muster/cli/job_options.h"

namespace muster::cli {

// What would be started: one entry a worker with rank, cores, GPU, command and the environment that muster adds.
// Opens hwloc and NVML where binding was asked for.
Result<std::string> dry_run(const JobPlan& plan, const Facts& facts, bool json);

}  // namespace muster::cli
