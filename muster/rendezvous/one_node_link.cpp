#include "muster/rendezvous/one_node_link.h"

namespace muster::rendezvous {
void OneNodeLink::join(const Join& join, std::function<void(const Message&)> told) {
  told_ = std::move(told);
  node_ = engine_.join(join);
}

void OneNodeLink::say(const Message& message) {
  // The engine's own process was signalled: no host needs to be named.
  if (const auto* request = std::get_if<StopRequest>(&message))
    return engine_.is_over() ? engine_.stop_late(request->signal) : engine_.stop(request->signal);
  engine_.received(node_, message);
}

// Deferred: the engine is in the middle of a decision.
void OneNodeLink::tell(const std::vector<NodeId>& nodes, const Message& message) {
  if (nodes.empty()) return;
  loop_.defer([this, message, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) told_(message);
  });
}

}  // namespace muster::rendezvous
