#pragma once

#include <vector>

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::job {

// CPUs of each worker; empty when no binding was asked for. Opens hwloc and NVML where it was.
Result<std::vector<std::vector<int>>> cpus_of_workers(const JobSpec& job);

}  // namespace muster::job
