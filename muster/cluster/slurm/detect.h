#pragma once

#include <optional>

#include "muster/cluster/adapter.h"

namespace muster::cluster::slurm {

// As cluster::detect(), for Slurm alone. Pure.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv);

// As cluster::time_left(): asks squeue.
Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline);

}  // namespace muster::cluster::slurm
