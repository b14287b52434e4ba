#pragma once

#include <string>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/result.h"

namespace muster::accelerate {

// Refuses what muster does not do, what goes not together, and numbers out of range. Notes on what has no effect.
// `agent`: of a part of a job, whose flags are the launcher's.
Result<std::vector<std::string>> check(const Settings& settings, bool agent);

}  // namespace muster::accelerate
