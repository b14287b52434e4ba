#pragma once

#include <vector>

#include "muster/base/result.h"

namespace muster::process {

// CPUs in this process's affinity mask, ascending.
std::vector<int> affinity_cpus();

// What this job may really use: the mask's size, cut by the cgroup's CPU quota (v1 and v2, every level up to the
// root), at least 1.
int usable_cores();

// OMP_NUM_THREADS for each of `workers`: the cores divided, at least 1.
int threads_per_worker(int cores, int workers);

}  // namespace muster::process
