#pragma once

#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::launcher {

// Where running jobs can be asked for their status: one socket `<job id>.sock` each, for this user alone. The first one
// that can be used is $XDG_RUNTIME_DIR/muster, else /run/user/<uid>/muster, else /tmp/muster-<uid>. A terminal may know
// another XDG_RUNTIME_DIR than the job does: whoever looks for jobs looks in all.
std::vector<std::string> status_directories();

// It is there, ours, and closed to everybody else.
Result<void> check_status_directory(const std::string& path);

// The first that can be used, made if need be.
Result<std::string> make_status_directory();

}  // namespace muster::launcher
