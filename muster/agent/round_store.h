#pragma once

#include <memory>

#include "muster/agent/job.h"
#include "muster/base/fd.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/store/server.h"

namespace muster::agent {

// Where the workers of one round meet: a store of our own, or a port kept free for the one that rank 0 will host.
// Every round has a fresh one, so that no key of an earlier round can be read; a port that the user fixed is bound
// again.
class RoundStore {
 public:
  // kUsage when the port is taken. The server lives on `loop` and complains to `log`.
  static Result<RoundStore> open(net::EventLoop& loop, Log& log, const JobSpec& job);
  uint16_t port() const { return port_; }

 private:
  RoundStore() = default;

  std::unique_ptr<store::Server> server_;
  Fd reservation_;
  uint16_t port_ = 0;
};

// A socket that holds a port (0: a free one) without listening: nobody gets it by chance, and a server that sets
// SO_REUSEADDR, as PyTorch's does, can still listen on it. kUsage when somebody listens there already.
Result<Fd> reserve_port(uint16_t port);

// Whether a connection comes from this machine, whatever interface it took. The store knows no passwords: it talks to
// nobody but the nodes of the job, and as yet that is this one.
bool is_this_machine(const net::Address& peer);

}  // namespace muster::agent
