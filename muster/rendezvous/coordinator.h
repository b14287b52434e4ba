#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/acceptor.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/output_intake.h"

namespace muster::rendezvous {

struct NodeOutcomes {
  std::string host;
  NodeId node = 0;
  std::string bytes;                     // as in RoundEnded
  std::optional<Duration> clock_offset;  // the node's steady clock minus ours
  std::string start_error;
};

// What the coordinator tells whoever runs it, and asks of it. Called on its loop.
class CoordinatorClient {
 public:
  virtual ~CoordinatorClient() = default;
  virtual void joined(const Node& node) = 0;
  virtual void gone(const Node& node, const std::string& why) = 0;
  // What it waits for, or does next, has changed.
  virtual void changed(const State& state, const Decision& decision) = 0;
  virtual void round_started(const State& state) = 0;
  // Somebody with muster's words but not this job's token, or of another version.
  virtual void refused(const std::string& who, const std::string& why) = 0;
  // A round is over and some worker failed: who is to blame.
  virtual Failure judge(int round, const std::vector<NodeOutcomes>& outcomes) = 0;
  // The job is over; returns what the agents are to say on their own consoles.
  virtual std::string ended(const Decision& decision) = 0;
  // Whole lines of a node's workers. They are taken in any case. False: no more for now; Coordinator::take_output()
  // ends that.
  virtual bool output(const std::string& host, const Chunk& chunk) = 0;
  // What an agent that calls itself so is to do: bytes that are its own and the client's business. Empty: there is no
  // such host.
  virtual std::string describe(const std::string& /*name*/) { return {}; }

 protected:
  CoordinatorClient() = default;
};

struct CoordinatorOptions {
  MembershipOptions membership;
  job::Token token;
  std::string sealed_token;  // Munge::seal(), for whoever asks; empty: none
  Duration stop_grace = std::chrono::seconds(30);
  std::string job;          // random id; empty: one is made
  std::string master_addr;  // given out as it is (static rendezvous); empty: what peers have been seen to reach
};

// The decisions of membership.h put to work: the door, the members' connections, their heartbeats, timers. Decides
// nothing itself.
class Coordinator {
 public:
  Coordinator(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client);
  ~Coordinator();

  // Why it cannot work: look here before listen().
  const std::optional<Error>& failure() const;
  void expect(const net::Address& host);  // somebody will come from there: strangers do not crowd it out
  void listen(Fd listener);               // net::listen_tcp; already bound, so that its port could be told to agents
  // The store's connections on the shared port. A TorchProbe is not among them.
  void serve_other(std::function<void(Fd socket, const net::Address& peer, std::string_view first_bytes)> serve);

  void stop(int signal);         // end the job: every node stops its workers with it
  void kill();                   // and now without any grace
  void pass_signal(int signal);  // to every worker of every node
  void host_hopeless(int position, const std::string& why, int exit_code = kMusterFailed);
  void host_hopeful(int position);
  void take_output();  // the client has room again
  // Nodes that are members, or were when the job ended, and have not told the end of their output.
  std::vector<OutputIntake::Unfinished> unfinished_output() const;
  const State& state() const;
  const std::vector<int>& pids(NodeId node) const;  // of its workers in the current round, by local rank
  const std::string& job() const;                   // its random id
  std::string address(NodeId node) const;           // as we see it; empty: not connected
  size_t connected() const;                         // members that have not hung up
  // Nobody is connected any more: all have heard how the job ended.
  void on_deserted(std::function<void()> callback);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
