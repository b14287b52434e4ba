#pragma once

#include <optional>

#include "muster/cluster/adapter.h"

namespace muster::cluster::pbs {

// As cluster::detect(), for PBS alone.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file);

// As cluster::time_left().
Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline);

}  // namespace muster::cluster::pbs
