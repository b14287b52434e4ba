#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/agent/warden_link.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::agent {

// The warden's part in a job of several nodes: sends heartbeats on a connection of its own, keeps the node's lease and
// watches the agent's pulse. When the connection is lost it connects again, as long as the lease, or the asking, lasts.
// When the agent has said that the node needs no lease any more (WardenLink::end_lease()), the pulse alone counts; it
// may then be slower, while the agent waits for file systems that do not respond.
class LeaseKeeper {
 public:
  struct Handlers {
    std::function<void()> stop_workers;  // this process stood still, and the lease is over: they must not run for now
    std::function<void()> continue_workers;               // the round stands
    std::function<void(const std::string& why)> expired;  // once: end everything of the job on this node
  };
  LeaseKeeper(net::EventLoop& loop, const job::Token& token, WardenLink& link, Handlers handlers);
  ~LeaseKeeper();

  // Acts on what the clock says. For a process that has just been woken up, before it does anything else.
  void look();
  // Tells the coordinator that nothing of the job is left on this node, if there is a connection. Runs the loop until
  // that has been sent, or until the deadline.
  void say_goodbye(Deadline deadline);

 private:
  void connect();
  void tick();
  void look(TimePoint now);
  bool agent_is_silent(TimePoint now) const;
  std::string next_beat();  // encoded
  void received(std::string_view bytes);
  void act_on(rendezvous::Lease::State state);
  void expire(const std::string& why);

  net::EventLoop& loop_;
  job::Token token_;
  WardenLink& link_;
  WardenLink::Terms terms_;
  Handlers handlers_;
  rendezvous::Lease lease_;
  rendezvous::Lease::State known_ = rendezvous::Lease::State::kHolding;
  TimePoint excused_;  // when the agent's silence began to count: the lease was renewed, or this process woke up
  TimePoint last_tick_;
  std::unique_ptr<rendezvous::Connector> connector_;
  std::unique_ptr<rendezvous::Channel> channel_;
  uint64_t sequence_ = 0;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace muster::agent
