#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/net/event_loop.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/route.h"

namespace muster::rendezvous {

// What one node has told of the end of a round.
struct NodeOutcomes {
  std::string host;
  NodeId node = 0;
  std::string bytes;                     // as in RoundEnded
  std::optional<Duration> clock_offset;  // the node's steady clock minus ours
  std::string start_error;
};

// What the engine tells the process that runs it, and asks of it. Called on its loop.
class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual void joined(const Node& node) = 0;
  virtual void gone(const Node& node, const Loss& loss) = 0;
  // The engine does something, or waits for something else than before.
  virtual void changed(const State& state, const Decision& decision) = 0;
  virtual void round_started(const State& state) = 0;
  // The first failure that a node tells of while the round runs.
  virtual void worker_failed(const Node& node, const WorkerFailed& failed) = 0;
  // A round is over and some worker failed: which one is to blame?
  virtual Failure judge(int round, const std::vector<NodeOutcomes>& outcomes) = 0;
  // The job is over; returns what the agents are to say on their own consoles. `outcomes`: of the last round, if it was
  // not judged.
  virtual std::string ended(const Decision& decision, const std::vector<NodeOutcomes>& outcomes) = 0;

 protected:
  EngineClient() = default;
};

struct EngineOptions {
  MembershipOptions membership;
  Duration stop_grace = std::chrono::seconds(30);
  std::string job;  // random id; empty: one is made
  std::string
      master_addr;  // given out as it is (static rendezvous, one machine); empty: what peers have been seen to reach
};

// How the engine reaches the nodes: over connections (coordinator.h) or within this process (one_node_link.h).
class Links {
 public:
  // Never calls the engine before it returns. A node that is gone is left out.
  virtual void tell(const std::vector<NodeId>& nodes, const Message& message) = 0;
  // It was decided that this node is lost: ends its connection and calls Engine::gone().
  virtual void drop(NodeId node, const Loss& loss) = 0;
  // Notes in the engine's state what was heard of the nodes up to now.
  virtual void listen(TimePoint now) = 0;
  virtual std::optional<Duration> clock_offset(NodeId node) const = 0;
  // The job is over, and all nodes have been told. `farewell`: for nodes that come later.
  virtual void over(const EndJob& farewell) = 0;

 protected:
  ~Links() = default;
};

// The decisions of membership.h put to work, for a job on one machine and on many: owns the state of the job, notes in
// it what the nodes say, asks decide() and carries the decision out. It decides nothing itself, and knows neither
// sockets nor processes.
class Engine {
 public:
  Engine(net::EventLoop& loop, EngineOptions options, Links& links, EngineClient& client);
  ~Engine();

  // A node for which there is no refusal() is a member from now on.
  NodeId join(const Join& join);
  // What a member says. False: a message that no member sends to an engine.
  bool received(NodeId node, const Message& message);
  // The control connection of a node is no more; see node_gone().
  void gone(NodeId node, LinkEnd control, const Loss& loss);

  // The job was asked to end. `host`: whose muster was; empty: this one.
  void stop(int signal, const std::string& host = {});
  // The same when the output of a job that has succeeded is not delivered yet: that is its end then.
  void stop_late(int signal);
  void kill();                   // and now without any grace
  void pass_signal(int signal);  // to every worker of every node
  // At the end of this turn of the loop, or a little later with many nodes. Call it when something has been noted in
  // state() by the functions of membership.h.
  void decide_soon();

  State& state() { return state_; }
  const State& state() const { return state_; }
  Routes& routes() { return routes_; }
  const EngineOptions& options() const { return options_; }
  const std::vector<int>& pids(NodeId node) const;  // of its workers in the current round, by local rank
  // As the node was seen; empty: not connected, or not over a connection.
  std::string address(NodeId node) const { return routes_.seen(node); }
  bool is_over() const { return over_; }

 private:
  // What a member has told, besides what is in the state.
  struct Told {
    std::string host;
    std::vector<int> pids;
    std::optional<RoundEnded> ended;  // of the current round
    bool asked_to_stop = false;
  };

  void on(NodeId node, const StoreOpened& opened);
  void on(NodeId node, const RoundStarted& started);
  void on(NodeId node, const WorkerFailed& failed);
  void on(NodeId node, const RoundEnded& ended);
  void on(NodeId node, const StopRequest& request);

  void decide_now();
  bool carry_out(TimePoint now, const Decision& decision);
  void open_round(const Decision& decision);
  void start_round(uint16_t port);
  void stop_round(TimePoint now, const Decision& decision);
  void end_job(const Decision& decision);
  std::vector<NodeOutcomes> take_outcomes();

  net::EventLoop& loop_;
  EngineOptions options_;
  Links& links_;
  EngineClient& client_;
  State state_;
  Routes routes_;
  std::map<NodeId, Told> told_;  // also of nodes that are gone, as long as their round is not judged
  size_t started_ = 0;           // members that have told the pids of this round
  net::EventLoop::TimerId wake_timer_ = 0;
  net::EventLoop::TimerId soon_timer_ = 0;
  bool deciding_ = false;  // deferred
  bool over_ = false;
  TimePoint decided_;
  std::string told_reason_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::rendezvous
