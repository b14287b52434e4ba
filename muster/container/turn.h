#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster::container {

// One muster at a time makes a container: the one that holds the lock on a file beside the container. The kernel releases
// the lock with the descriptor, however its holder ends. On a network file system the lock holds between nodes (NFS
// releases that of a machine that crashed after its lease, 90 s by default).
struct Turn {
  std::string lock = {};       // the file; it stays, and names the node that took the lock last
  std::string container = {};  // its name, for messages
  std::string host = {};       // this node's name, for those that wait
  Deadline deadline = Deadline::at(TimePoint::max());
  int launcher = -1;                                     // hangs up when the job is gone; -1: there is none
  std::function<void(const std::string&)> waiting = {};  // told once that this node waits, and for which node
};

// Blocks until the lock is ours. Errors: kTimeout at the deadline, kPeer if the launcher hung up, kSystem. Returns an empty
// descriptor if the file system has no locks.
Result<Fd> take(const Turn& turn);

}  // namespace muster::container
