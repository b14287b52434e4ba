#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/job/spec.h"
#include "muster/launcher/head.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/engine.h"

namespace muster::launcher {

// As `muster status` lists them: the members of the round by their rank, then the others as people gave them. Pure.
std::vector<rendezvous::NodeId> listed_nodes(const rendezvous::State& state);
// Who is gone since the round opened and has not come back, a sentence each. Pure.
std::vector<rendezvous::Loss> still_gone(const rendezvous::State& state);

// Answers `muster status`: a unix socket that only this user can reach, one JSON document a connection. The job does
// without it where it cannot be made; a reader that does not read delays nobody.
class StatusServer {
 public:
  static std::unique_ptr<StatusServer> open(net::EventLoop& loop, Log& log, const job::JobSpec& job,
                                            const rendezvous::Engine& engine, const Head& head, std::string mode);
  ~StatusServer();  // removes the socket

 private:
  class Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::launcher
