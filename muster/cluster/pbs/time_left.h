#pragma once

#include <ctime>
#include <optional>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/cluster/surroundings.h"

namespace muster::cluster::pbs {

// As cluster::time_left(): `qstat -f JOBID`.
Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline);

// The same from what qstat said, with times in UTC, at `now` by the clock on the wall. Pure.
//
// The time that has been used is that since `stime`: the job's own resources_used.walltime is brought up to date every two
// minutes only. But a job that was suspended, or began on another clock, has used what PBS says.
Result<std::optional<Duration>> time_left(std::string_view qstat, time_t now);

// "01:30:00", "90:00", "5400", each part of any length; nothing for what is no time or more than 100 years. Pure.
std::optional<std::chrono::seconds> parse_walltime(std::string_view text);

}  // namespace muster::cluster::pbs
