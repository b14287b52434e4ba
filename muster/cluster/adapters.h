#pragma once

#include "muster/cluster/adapter.h"

// The adapters there are, a folder each. A new one is declared here and listed in adapters().
namespace muster::cluster {

namespace slurm {
const Adapter& adapter();
}
namespace pbs {
const Adapter& adapter();
}
namespace ssh {
const Adapter& adapter();  // hosts that the user names
}
namespace local {
const Adapter& adapter();  // nodes that are simulated on this machine
}
namespace preset {
const Adapter& adapter();  // variables for a torchrun on this node; starts no agents
}
namespace worker {
const Adapter& adapter();  // the inside of a worker of another launcher; starts no agents
}

// In the order in which they are asked.
const std::vector<const Adapter*>& adapters();

}  // namespace muster::cluster
