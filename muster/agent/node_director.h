#pragma once

#include "muster/agent/director.h"
#include "muster/rendezvous/protocol.h"

namespace muster::agent {

// The director of every job: the engine decides (rendezvous/engine.h), the node does it and tells what came of it. The
// two ways to the engine differ: over the network (member_node.cpp), or within this process (local_node.cpp).
class NodeDirector : public Director {
 public:
  NodeDirector(NodeControl& node, const job::JobSpec& job) : node_(node), job_(job) {}

  void round_started() override;
  void worker_failed(const Worker& worker) override;
  void round_ended(const std::optional<Error>& error) override;

 protected:
  virtual void say(const rendezvous::Message& message) = 0;  // to the engine

  rendezvous::Join join() const;
  void open_store(const rendezvous::OpenStore& open);
  // Takes what StartRound says; start() or cannot_start() follow.
  void take_round(const rendezvous::StartRound& start);
  void start(const std::string& master_addr);
  void cannot_start(const std::string& why);

  NodeControl& node_;
  const job::JobSpec& job_;
  job::Round round_;                  // the current or last one
  bool in_round_ = false;             // told to start; not yet told the engine how it ended
  bool started_ = false;              // the round, here
  TimePoint began_ = Clock::now();    // of the rendezvous
  std::optional<Error> start_error_;  // of the round
  std::optional<rendezvous::EndJob> end_;
  std::optional<Error> error_;  // why this node has left the job
};

}  // namespace muster::agent
