#pragma once

#include <string>

#include "muster/container/plan.h"

// What a container's command lines depend on here, and the place where containers are kept.
namespace muster::container {

bool exists(const std::string& path);

Node this_node(Kind kind);

// Makes the directory, which must be ours alone: another user who can write there could swap what we are going to run.
Result<void> make_own_directory(const std::string& path);

}  // namespace muster::container
