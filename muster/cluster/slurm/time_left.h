#pragma once

#include <optional>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/cluster/surroundings.h"

namespace muster::cluster::slurm {

// As cluster::time_left(): `squeue -h -j JOBID -o '%A %L'`.
Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline);

// The same from what squeue said, a line for each component of a heterogeneous job: "12 1-02:03:04", "12 2:03:04",
// "12 2:03"; nothing for UNLIMITED; an error for what is not known (INVALID, NOT_SET, or a job that is gone). Pure.
Result<std::optional<Duration>> parse_time_left(std::string_view squeue, std::string_view job_id);

}  // namespace muster::cluster::slurm
