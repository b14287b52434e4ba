#pragma once

#include <optional>

#include "muster/cluster/adapter.h"

namespace muster::cluster::preset {

// What somebody wrote down for a torchrun on this node: PET_*, or MASTER_ADDR with the number of nodes and this node's
// own, as Kubernetes' training operator and clouds do. Nothing inside another launcher's worker. Pure.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv);

}  // namespace muster::cluster::preset
