#pragma once

#include <optional>
#include <string>

#include "muster/cluster/adapter.h"
#include "muster/plan/plan.h"

namespace muster::plan {

using job::Mode;
std::string_view mode_name(std::optional<Mode> mode);  // as --mode spells it; "none"

// How `muster run` starts a job where no option says so. The first row that matches counts:
//   2  the interactive step of salloc, and others that are no steps of srun: as row 5
//   3  a step of srun on several nodes: symmetric; where they meet, who is who and the id are derived
//   4  a step on one node: this node alone
//   5  a batch script, a shell of salloc, a PBS job's script: fan-out over the allocation; local where it is one node, this
//   6  no scheduler, but variables that say where the nodes meet: symmetric
//   7  otherwise: local
// (Row 1 is --hosts and its like.)
struct ModeChoice {
  int row = 7;
  std::optional<Mode> mode;  // none: it is refused
  std::string why;           // "a batch script: the nodes are started from here"
  std::string would;         // "starts one agent on each of n1, n2 with srun"
};

// In words what was planned for a `muster run` without options, or why nothing was. `asked`: PET_NPROC_PER_NODE, or
// nothing. Pure.
ModeChoice describe_mode(const std::optional<cluster::Surroundings>& here, const Result<JobPlan>& plan,
                         const std::string& asked);

// "n1, n2, n3", cut where there are many.
std::string node_list(const std::vector<cluster::Host>& nodes);

// Whether this machine, called `host`, is the node. Slurm says what the node is called in all but a shell of salloc.
bool is_own_node(const cluster::Surroundings& here, const std::string& node, const std::string& host);

}  // namespace muster::plan
