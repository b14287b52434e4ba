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
  std::string host = {};         // the name of this node
  Environment environment = {};  // of this process
  std::set<std::string> given_variables = {};
  std::vector<std::string> directories = {};  // of the node; created if they do not exist
  std::string python = {};                    // PYTHON_EXEC; empty: python, else python3
  bool dry = false;                           // run and make nothing; only plan
  Deadline deadline = Deadline::at(TimePoint::max());
  int launcher = -1;                                 // hangs up when the launcher is gone; -1: there is none
  std::function<void(const std::string&)> say = {};  // called with what takes long
};

struct Prepared {
  Plan plan;
  std::string python;  // of the image; empty: it has no Python
};

// Prepares the container on this node and probes it once. A named container is made if it does not exist. Only one
// muster at a time makes it, also among nodes that share the runtime's data; the others wait. It gets its name only
// when it is complete, and what an interrupted muster left is removed. Blocks at most until the deadline. Errors name
// the host, the image and the runtime's message; kInterrupted: a signal came, kPeer: the launcher is gone.
Result<Prepared> prepare(const Request& request);

// Removes what is left of the job's containers on this node, at the end of a job. Blocks at most until the deadline.
void clean_up(const Plan& plan, const Environment& environment, Deadline deadline);

}  // namespace muster::container
