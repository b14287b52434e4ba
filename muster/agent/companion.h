#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "muster/base/fd.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/output/console.h"

namespace muster::rendezvous {
class OneNodeLink;
}

namespace muster::agent {

// What lives in an agent's process beside it: the engine of a job on this machine alone, or the coordinator, on the node
// that hosts it.
class Companion {
 public:
  virtual ~Companion() = default;
  // The engine of a job on this machine alone; null: the agent finds the coordinator of its job over the network.
  virtual rendezvous::OneNodeLink* engine() { return nullptr; }
  // The connections of the store where it shares the coordinator's port. Empty: nobody serves them now.
  virtual void serve_store(
      const std::function<void(Fd socket, const net::Address& peer, std::string_view first_bytes)>& /*serve*/) {}
  // This node has become a member of the job.
  virtual void joined() {}
  // The last word has reached everybody. Blocks until the deadline at most.
  virtual void finish(Deadline deadline) = 0;
};

using MakeCompanion = std::function<Result<std::unique_ptr<Companion>>(net::EventLoop& loop, output::Console& console)>;

}  // namespace muster::agent
