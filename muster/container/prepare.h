#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/container/commands.h"

namespace muster::container {

struct Request {
  Spec spec = {};
  std::string host = {};         // what this node is called
  Environment environment = {};  // of this process
  std::set<std::string> given_variables = {};
  std::vector<std::string> directories = {};  // of the node, made where they do not exist
  std::string python = {};                    // PYTHON_EXEC; empty: python, else python3
  bool dry = false;                           // nothing is run or made: what would be
  Deadline deadline = Deadline::at(TimePoint::max());
  int launcher = -1;                                 // hangs up when whoever wants this is gone; -1: there is none
  std::function<void(const std::string&)> say = {};  // what takes long
};

struct Prepared {
  Plan plan;
  std::string python;  // of the image; empty: it has none
};

// Makes the container ready on this node and looks into it once. A named container is made if it does not exist: by one
// muster at a time, also of the nodes that share the runtime's data, and the others wait. It has its name only when it is
// whole, and what an interrupted making left is removed. Blocks until the deadline at most. Errors name host, image and
// what the runtime said. Ended early by a signal (kInterrupted) or with the launcher (kPeer).
Result<Prepared> prepare(const Request& request);

// Removes what is left of the job's containers on this node: for the end of a job, whoever ends it. Blocks until the
// deadline at most.
void clean_up(const Plan& plan, const Environment& environment, Deadline deadline);

}  // namespace muster::container
