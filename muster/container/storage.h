#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/result.h"

// The directory in which the containers of a runtime are kept. Several nodes may share it, so a container gets its name
// only when it is complete: see making_name().
namespace muster::container {

// Whether `entry` of that directory is an unfinished container, of this node or, if it is a day old, of another node.
// `making`: making_name() on this node. Call it with the lock held. Pure.
bool is_leftover(const std::string& entry, const std::string& making, const std::string& name,
                 std::chrono::seconds unchanged_for);

// The entries of the directory for which is_leftover() is true; empty if it cannot be read.
std::vector<std::string> leftovers(const std::string& directory, const std::string& making, const std::string& name);

// Renames the container atomically. False: a container with this name exists, and stays.
Result<bool> give_name(const std::string& directory, const std::string& making, const std::string& name);

}  // namespace muster::container
