#pragma once

#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster {

// Where this user's processes meet at sockets of their own: running jobs, one `<job id>.sock` each, answer `muster status`,
// and tasks of one node find each other. The first directory that can be used is $XDG_RUNTIME_DIR/muster, else /run/user/<uid>/muster, else /tmp/muster-<uid>. A terminal may know
// another XDG_RUNTIME_DIR than the job does: whoever looks for jobs looks in all.
std::vector<std::string> socket_directories();

// It is there, ours, and closed to everybody else.
Result<void> check_socket_directory(const std::string& path);

// The first that can be used, made if need be.
Result<std::string> make_socket_directory();

}  // namespace muster
