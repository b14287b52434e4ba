#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/result.h"

// The directory in which containers of one runtime are kept. Several nodes may share it, so that a container gets its name
// only when it is whole: see making_name().
namespace muster::container {

// Whether `entry` of that directory is a container that this node's muster, or another node's a day ago, did not finish.
// `making`: making_name() on this node. Call with the lock held. Pure.
bool is_leftover(const std::string& entry, const std::string& making, const std::string& name,
                 std::chrono::seconds unchanged_for);

// The entries of the directory for which that is so; empty also if it cannot be read.
std::vector<std::string> leftovers(const std::string& directory, const std::string& making, const std::string& name);

// Gives the container its name in one step. False: there is one of that name, which stays.
Result<bool> give_name(const std::string& directory, const std::string& making, const std::string& name);

}  // namespace muster::container
