#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/acceptor.h"
#include "muster/rendezvous/engine.h"

namespace muster::rendezvous {

// What a coordinator tells the process that runs it, beyond what an engine does.
class CoordinatorClient : public EngineClient {
 public:
  // Somebody with muster's words but not this job's token, or of another version.
  virtual void refused(const std::string& who, const std::string& why) = 0;
  // What an agent that calls itself so is to do: bytes that are its own and the client's business. Empty: there is no
  // such host.
  virtual std::string describe(const std::string& /*name*/) { return {}; }
};

struct CoordinatorOptions : EngineOptions {
  job::Token token;
  std::string sealed_token;  // Munge::seal(), for whoever asks; empty: none
};

// The engine of a job of several nodes, and its links over the network: the door, the members' connections, their
// heartbeats.
class Coordinator {
 public:
  Coordinator(net::EventLoop& loop, Log& log, const CoordinatorOptions& options, CoordinatorClient& client);
  ~Coordinator();

  // Why it cannot work: look here before listen().
  const std::optional<Error>& failure() const;
  void expect(const net::Address& host);  // somebody will come from there: strangers do not crowd it out
  void listen(Fd listener);               // net::listen_tcp; already bound, so that its port could be told to agents
  // The store's connections on the shared port. A TorchProbe is not among them.
  void serve_other(std::function<void(Fd socket, const net::Address& peer, std::string_view first_bytes)> serve);
  // Connections for output. They are closed unless this is called.
  void serve_output(std::function<void(std::unique_ptr<Channel>)> serve);

  void stop(int signal);  // as those of the engine
  void kill();
  void pass_signal(int signal);
  void host_hopeless(int position, const Error& why);
  void host_hopeful(int position);
  const Engine& engine() const;
  const State& state() const;
  size_t connected() const;  // members that have not hung up
  // The job is over and no node is connected any more: all have heard how it ended.
  bool deserted() const;
  // Called whenever deserted() becomes true.
  void on_deserted(std::function<void()> callback);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
