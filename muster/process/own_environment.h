#pragma once

#include "muster/process/spawn.h"

namespace muster::process {

// The environment of this process, as it is now.
Environment own_environment();

}  // namespace muster::process
