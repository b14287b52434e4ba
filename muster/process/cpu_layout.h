#pragma once

#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/process/binding.h"

namespace muster::process {

using CpuSet = std::vector<int>;  // ascending

// A machine as binding sees it: for each level the sets of CPUs that may be used, none of them empty, in the machine's
// order.
struct CpuLayout {
  std::vector<CpuSet> nodes;  // NUMA nodes that have CPUs
  std::vector<CpuSet> sockets;
  std::vector<CpuSet> complexes;  // CPUs that share a last-level cache
  std::vector<CpuSet> cores;      // with all their hardware threads
};

// CPUs for each worker. `near` has one set per worker: the CPUs next to its GPU; empty if it has none.
Result<std::vector<CpuSet>> assign_cpus(Binding binding, const CpuLayout& layout, const std::vector<CpuSet>& near);

}  // namespace muster::process
