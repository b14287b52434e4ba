#pragma once

#include <string>

#include "muster/base/result.h"

namespace muster::launcher {

// Where jobs of this user on this machine have their status sockets, <job id>.sock: $XDG_RUNTIME_DIR/muster, else
// /tmp/muster-<uid>.
std::string status_directory();

// The same, made if need be; an error when it is not this user's alone.
Result<std::string> make_status_directory();

}  // namespace muster::launcher
