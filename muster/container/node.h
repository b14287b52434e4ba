#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/container/plan.h"

// What a container's command lines depend on here, and the place where containers are kept.
namespace muster::container {

bool exists(const std::string& path);

Node this_node(Kind kind);

// Ours alone: whoever can write there could swap what we are going to run.
Result<void> make_own_directory(const std::string& path);

// One muster of this node at a time. Released with the descriptor, by whatever way its holder ends. Blocks until the
// deadline at most, or until the launcher hangs up (kPeer; -1: there is none); calls `waiting` once, if it has to.
Result<Fd> take_turn(const std::string& path, Deadline deadline, int launcher, const std::function<void()>& waiting);

}  // namespace muster::container
