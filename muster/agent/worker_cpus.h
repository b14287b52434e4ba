#pragma once

#include <vector>

#include "muster/agent/job.h"
#include "muster/base/result.h"

namespace muster::agent {

// CPUs of each worker; empty when no binding was asked for. Opens hwloc and NVML where it was.
Result<std::vector<std::vector<int>>> cpus_of_workers(const JobSpec& job);

}  // namespace muster::agent
