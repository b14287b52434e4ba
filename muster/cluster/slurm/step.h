#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/slurm/starter.h"

// What is asked of srun. All pure.
namespace muster::cluster::slurm {

// Whether srun must be told of the job's devices. Left to itself it asks again for what the job has asked for, which
// may be less than what the job got on a node (--exclusive, --gpus-per-task), or nothing it can give (--gpus, divided
// unevenly). A shell of salloc knows nothing about them.
bool may_have_devices(const Environment& environment);

// What the job has on each node, by `scontrol show job -d`.
struct Devices {
  bool counted_by_job = false;              // --gpus: a step on several nodes cannot say what it wants of each
  std::map<std::string, std::string> node;  // "gpu:a100:2,nic:1"
  bool operator==(const Devices&) const = default;
};
Devices parse_devices(std::string_view scontrol);

// Which component of a heterogeneous job each node is in; empty: the job is none. A step has one of them.
using Components = std::map<std::string, int>;
Components components_of(const Environment& environment);

// Nodes that one srun can start.
struct Group {
  std::vector<size_t> hosts;         // indices into what was given
  std::vector<std::string> options;  // of srun
  bool operator==(const Group&) const = default;
};
std::vector<Group> divide(const std::vector<std::string>& hosts, const std::optional<Devices>& devices,
                          const Components& components);

// argv of srun. `more`: of the group. `bcast`: where the program is copied to on each node; empty: it is there.
std::vector<std::string> srun_command(const Options& options, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& more, const std::string& bcast);

// Without what would make the step another one than it says (SLURM_CPUS_PER_TASK, SLURM_NTASKS, SLURM_HINT …). Agents
// get it all the same, with the rest of the launcher's environment.
Environment srun_environment(Environment environment);

}  // namespace muster::cluster::slurm
