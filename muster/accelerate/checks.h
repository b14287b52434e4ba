#pragma once

#include <string>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/result.h"

namespace muster::accelerate {

// Rejects unsupported or conflicting settings, and numbers out of range. Returns notes about settings without effect.
// `agent`: the settings come from the launcher.
Result<std::vector<std::string>> check(const Settings& settings, bool agent);

}  // namespace muster::accelerate
