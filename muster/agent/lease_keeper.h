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
// watches the agent's pulse. It outlives a lost connection as long as the lease does: it connects again.
class LeaseKeeper {
 public:
  struct Handlers {
    std::function<void()> stop_workers;                   // this process stood still: they must not run until we know
    std::function<void()> continue_workers;               // the round stands
    std::function<void(const std::string& why)> expired;  // once: end everything of the job on this node
  };
  LeaseKeeper(net::EventLoop& loop, const rendezvous::Token& token, WardenLink& link, Handlers handlers);
  ~LeaseKeeper();

 private:
  void connect();
  void tick();
  std::string next_beat();  // encoded
  void received(std::string_view bytes);
  void act_on(rendezvous::Lease::State state);
  void expire(const std::string& why);

  net::EventLoop& loop_;
  rendezvous::Token token_;
  WardenLink& link_;
  WardenLink::Terms terms_;
  Handlers handlers_;
  rendezvous::Lease lease_;
  rendezvous::Lease::State known_ = rendezvous::Lease::State::kHolding;
  std::unique_ptr<rendezvous::Connector> connector_;
  std::unique_ptr<rendezvous::Channel> channel_;
  uint64_t sequence_ = 0;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace muster::agent
