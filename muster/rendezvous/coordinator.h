#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/acceptor.h"
#include "muster/rendezvous/membership.h"

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
  // Something changed that people may want to know: joined, lost, round, restart. `reason` is a sentence.
  virtual void changed(const State& state, const std::string& reason) = 0;
  // A round is over and some worker failed: who is to blame.
  virtual Failure judge(int round, const std::vector<NodeOutcomes>& outcomes) = 0;
  // The job is over, all agents have been told. The text that agents print beside their exit code comes from here.
  virtual std::string ending_text(const Decision& decision) = 0;
  virtual void ended(const Decision& decision) = 0;
  virtual void output(const std::string& host, const Chunk& chunk) = 0;
  virtual void output_closed(const std::string& /*host*/) {}
};

struct CoordinatorOptions {
  MembershipOptions membership;
  Token token;
  Duration stop_grace = std::chrono::seconds(30);
  // Static: MASTER_PORT is the coordinator's own port, and the store of the round is served there.
  bool store_shares_port = false;
  std::string master_addr;  // given out as it is (static rendezvous); empty: what peers have been seen to reach
};

// The decisions of membership.h put to work: the door, the members' connections, their heartbeats, timers. Decides
// nothing itself.
class Coordinator {
 public:
  Coordinator(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client);
  ~Coordinator();

  void listen(Fd listener);  // net::listen_tcp; already bound, so that its port could be told to agents
  // The store's connections on the shared port.
  void serve_other(std::function<void(Fd socket, const net::Address& peer, std::string_view first_bytes)> serve);

  void stop(int signal);         // end the job: every node stops its workers with it
  void pass_signal(int signal);  // to every worker of every node
  void host_hopeless(int position, const std::string& why);
  void host_hopeful(int position);
  const State& state() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
