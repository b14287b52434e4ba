#pragma once

#include <string>

#include "muster/container/plan.h"

// What the command lines of containers need to know about this node, and the directory in which containers are kept.
namespace muster::container {

bool exists(const std::string& path);

Node this_node(Kind kind);

// Creates the directory. Only this user may write to it: another user could replace what muster is going to run.
Result<void> make_own_directory(const std::string& path);

}  // namespace muster::container
