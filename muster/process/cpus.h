#pragma once

#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::process {

// CPUs in this process's affinity mask, ascending.
std::vector<int> affinity_cpus();

// Sets the CPUs of this process and of the processes that it will start. Fewer if a cgroup allows fewer; an error if it
// allows none.
Result<void> set_affinity(const std::vector<int>& cpus);

// The number of CPUs that this job may really use: the mask's size, cut by the cgroup's CPU quota (v1 and v2, every
// level up to the root; 1.5 CPUs count as 2), at least 1. `root` is "" outside tests.
int usable_cores(const std::string& root = "");

// Cores of the machine, hyperthreads not counted; 0: the kernel does not say. `root` is "" outside tests.
int physical_cores(const std::string& root = "");

// OMP_NUM_THREADS for each of `workers`: the cores divided, at least 1.
int threads_per_worker(int cores, int workers);

}  // namespace muster::process
