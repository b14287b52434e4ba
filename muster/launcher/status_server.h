#pragma once

#include <memory>
#include <string>

#include "muster/agent/job.h"
#include "muster/base/log.h"
#include "muster/launcher/head.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/coordinator.h"

namespace muster::launcher {

// Answers `muster status`: a unix socket that only this user can reach, one JSON document a connection. The job does
// without it where it cannot be made; a reader that does not read delays nobody.
class StatusServer {
 public:
  static std::unique_ptr<StatusServer> open(net::EventLoop& loop, Log& log, const agent::JobSpec& job,
                                            const rendezvous::Coordinator& coordinator, const Head& head,
                                            std::string mode);
  ~StatusServer();  // removes the socket

 private:
  class Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::launcher
