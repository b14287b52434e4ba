#pragma once

#include <string>
#include <string_view>

#include "muster/plan/plan.h"

namespace muster::cli {

// The same of a job on several nodes: which, started how and why, the command and what every worker finds. What the
// other machines alone know has a place in <…>, and their cores and GPUs have none.
std::string dry_run_nodes(const plan::JobPlan& plan, const Environment& own, bool json);

// What would be started: one entry a worker with rank, cores, GPU, command and the environment that muster adds.
// Opens hwloc and NVML where binding was asked for.
Result<std::string> dry_run(const plan::JobPlan& plan, bool json);

inline constexpr std::string_view kChosenAtStart = "<chosen at start>";

// The variables that differ from what the launcher itself was given. Pure.
Environment added_variables(const plan::JobPlan& plan, const Environment& environment);

}  // namespace muster::cli
