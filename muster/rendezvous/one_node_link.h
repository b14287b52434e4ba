#pragma once

#include <functional>

#include "muster/rendezvous/engine.h"

namespace muster::rendezvous {

// The engine of a job that has one node, in the process of that node's agent, and the link between the two. Messages
// cross no socket, and the node has no lease: it cannot be lost without the engine.
class OneNodeLink final : private Links {
 public:
  // The membership is that of one node without a lease.
  OneNodeLink(net::EventLoop& loop, EngineOptions options, EngineClient& client)
      : loop_(loop), engine_(loop, std::move(options), *this, client) {}

  // Makes the node a member. `told` gets what the engine tells it, from the loop: OpenStore, StartRound, StopRound,
  // EndJob; no Welcome.
  void join(const Join& join, std::function<void(const Message&)> told);
  // What the node tells the engine.
  void say(const Message& message);
  const Engine& engine() const { return engine_; }

 private:
  void tell(const std::vector<NodeId>& nodes, const Message& message) override;
  void drop(NodeId /*node*/, const Loss& /*loss*/) override {}
  void listen(TimePoint /*now*/) override {}
  std::optional<Duration> clock_offset(NodeId /*node*/) const override { return Duration(0); }
  void over(const EndJob& /*farewell*/) override {}

  net::EventLoop& loop_;
  Engine engine_;
  NodeId node_ = 0;
  std::function<void(const Message&)> told_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::rendezvous
