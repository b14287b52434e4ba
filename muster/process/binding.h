#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::process {

// torchrun's --numa-binding. "The node" of a worker is the NUMA node of its GPU; workers without a GPU are distributed
// over the nodes.
//   node          all CPUs of the NUMA node
//   socket        all CPUs of the socket
//   exclusive     the node's cores divided among its workers; no two share a core
//   core-complex  the cores of the node that share one last-level cache; one cache per worker if there are enough
enum class Binding { kNode, kSocket, kExclusive, kCoreComplex };
std::optional<Binding> parse_binding(std::string_view text);

struct BindingRequest {
  Binding binding = Binding::kNode;
  int workers = 1;                            // on this node
  std::vector<std::string> gpu_pci_ids = {};  // one per worker ("0000:65:00.0"), "" for none; empty: no GPUs
  std::string topology_xml = {};              // a file that hwloc exported, instead of this machine; for tests
  std::vector<int> allowed = {};              // empty: this process's affinity mask (all CPUs of a topology_xml)
};

// CPUs of each worker, ascending, never empty, within this process's affinity mask. Opens hwloc (its discovery takes
// about 10 ms). kUsage if there are fewer cores than `exclusive` needs.
Result<std::vector<std::vector<int>>> bind_workers(const BindingRequest& request);

// "0-3,8" for {0,1,2,3,8}
std::string cpu_ranges(const std::vector<int>& cpus);

// PCI ids of the GPUs with these CUDA ids (indices or UUIDs), through NVML opened at run time; empty if there is
// no NVML, or if it does not know one of them.
std::vector<std::string> gpu_pci_ids(const std::vector<std::string>& ids);

}  // namespace muster::process
