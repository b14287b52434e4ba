#pragma once

#include <functional>

#include "muster/job/spec.h"

namespace muster::launcher {

// Runs a job on this machine alone: warden and agent as run_under_warden() does, with the engine beside the agent, in
// its process. Returns muster's exit code. `at_end`: WardenOptions::at_end.
int run_alone(const job::JobSpec& job, const std::function<void()>& at_end);

}  // namespace muster::launcher
