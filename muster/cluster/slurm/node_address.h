#pragma once

#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::cluster::slurm {

// Where Slurm itself reaches a node, whatever a resolver makes of the name: NodeAddr of `scontrol show node`. An
// address, or a name, which may be the node's own. Asks slurmctld.
Result<std::string> node_address(const std::string& node, Deadline deadline);

// The same from what scontrol said; empty: it does not say. Pure.
std::string parse_node_address(std::string_view scontrol);

}  // namespace muster::cluster::slurm
