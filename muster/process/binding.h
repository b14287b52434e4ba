#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::process {

// torchrun's --numa-binding. GPU locality is respected where workers have GPUs: "the node" is the one of the worker's
// GPU.
enum class Binding { kNode, kSocket, kExclusive, kCoreComplex };
std::optional<Binding> parse_binding(std::string_view text);

struct BindingRequest {
  Binding binding;
  int workers;                           // on this node
  std::vector<std::string> gpu_pci_ids;  // one a worker ("0000:65:00.0"); empty: no GPUs
  std::string topology_xml;              // a file hwloc exported, instead of this machine; for tests
};

// CPUs of each worker, within this process's affinity mask. Opens hwloc (its discovery takes about 10 ms).
Result<std::vector<std::vector<int>>> bind_workers(const BindingRequest& request);

// "0-3,8" for {0,1,2,3,8}
std::string cpu_ranges(const std::vector<int>& cpus);

// PCI ids of the GPUs with these CUDA ids (indices or UUIDs), through NVML opened at run time; empty where there is
// none.
std::vector<std::string> gpu_pci_ids(const std::vector<std::string>& ids);

}  // namespace muster::process
