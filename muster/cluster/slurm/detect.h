#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/surroundings.h"

namespace muster::cluster::slurm {

// As cluster::detect(), for Slurm alone. Pure.
//
// kHead: a batch script, salloc's shell on the machine where it was typed, or its interactive step on the first node
// (`node_name` tells them apart: the former is no node of the job, as far as is known). kTask, kOneNode: a task of
// srun.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv);

// How many tasks node `index` has by "2(x2),1": SLURM_TASKS_PER_NODE and its like. Pure.
Result<int> tasks_of_node(std::string_view text, size_t index);

// The CPUs that the tasks of a node have together by SLURM_CPU_BIND_TYPE and SLURM_CPU_BIND_LIST: "mask_cpu:" and
// "0x1,0x2". Who gives a list himself may give one for more tasks than are here. None: they are not bound, or nobody
// says to which. Pure.
std::vector<int> bound_cpus(std::string_view type, std::string_view list, int tasks);

// The variable that has the nodes of a component of a heterogeneous job.
std::string component_nodelist(int component);

}  // namespace muster::cluster::slurm
