#pragma once

#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster {

// Directories with sockets of this user's processes: each running job has a `<job id>.sock` that answers `muster
// status`, and tasks on one node find each other there. The first directory that can be used is
// $XDG_RUNTIME_DIR/muster, else /run/user/<uid>/muster, else /tmp/muster-<uid>. A terminal may have another
// XDG_RUNTIME_DIR than the job, so `muster status` looks in all of them.
std::vector<std::string> socket_directories();

// Checks that the directory exists, belongs to this user, and is closed to other users.
Result<void> check_socket_directory(const std::string& path);

// The first directory that can be used; creates it if necessary.
Result<std::string> make_socket_directory();

}  // namespace muster
