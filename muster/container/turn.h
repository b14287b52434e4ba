#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster::container {

// Only one muster at a time makes a container: the one that holds the lock on a file beside the container. The kernel
// releases the lock when the holder ends. On a network file system the lock works between nodes; NFS releases the lock
// of a machine that crashed after its own lease, 90 s by default.
struct Turn {
  std::string lock = {};       // the file; it is not removed, and names the last holder
  std::string container = {};  // name of the container, for messages
  std::string host = {};       // name of this node, for the nodes that wait
  Deadline deadline = Deadline::at(TimePoint::max());
  int launcher = -1;                                     // hangs up when the launcher is gone; -1: there is none
  std::function<void(const std::string&)> waiting = {};  // called once, with the node that this node waits for
};

// Blocks until this process has the lock. Errors: kTimeout at the deadline, kPeer if the launcher hung up, kSystem.
// Returns an empty descriptor if the file system has no locks.
Result<Fd> take(const Turn& turn);

}  // namespace muster::container
