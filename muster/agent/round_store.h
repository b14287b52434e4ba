#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "muster/base/fd.h"
#include "muster/job/spec.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/net/interfaces.h"
#include "muster/net/socket_owner.h"
#include "muster/store/server.h"

namespace muster::agent {

// Where the workers of one round meet: a store of our own, or a port kept free for the one that rank 0 will host.
// Every round has a fresh one, so that no key of an earlier round can be read; a port that the user fixed is bound
// again.
class RoundStore {
 public:
  struct Options {
    job::StoreHost host = job::StoreHost::kAgent;
    uint16_t port = 0;  // 0: a free one, of `ports` if that says which
    job::PortRange ports = {};
    bool listens = true;  // false: somebody else has the port and hands connections over with adopt()
    store::AcceptPeer accept_peer;
  };
  // kUsage when the port is taken. The server lives on `loop` and complains to `log`.
  static Result<RoundStore> open(net::EventLoop& loop, Log& log, const Options& options);
  uint16_t port() const { return port_; }
  void adopt(Fd socket, const net::Address& peer, std::string_view first_bytes);

 private:
  RoundStore() = default;
  Result<void> listen(const Options& options);
  Result<void> reserve(const Options& options);

  std::unique_ptr<store::Server> server_;
  Fd reservation_;
  uint16_t port_ = 0;
};

// The store of the next round of a job, for its members (only_members()).
Result<RoundStore> open_round_store(net::EventLoop& loop, Log& log, const job::JobSpec& job,
                                    const std::vector<std::string>& members);

// Every port of a range, from a random place on: jobs that share it do not all try the same ones first.
std::vector<uint16_t> ports_to_try(const job::PortRange& range);

// A socket that holds a port (0: a free one) without listening: nobody gets it by chance, and a server that sets
// SO_REUSEADDR, as PyTorch's does, can still listen on it. kUsage when somebody listens there already.
Result<Fd> reserve_port(uint16_t port);

// The store's protocol has no passwords. The store of a round therefore serves the nodes of the job only (`members`:
// their numeric addresses), and of the processes on this machine only those of this user. A connection whose owner the
// kernel does not name is refused, unless `owners_known` (asked once, when the first such connection comes) says that
// the kernel never names any: then it is served, and `log` says so once. `is_own` says whether a peer is on this machine;
// if it returns an error, the peer is served only if the kernel names this user as its owner, and nothing is remembered.
using IsOwnAddress = std::function<Result<bool>(const net::Address&)>;
store::AcceptPeer only_members(std::vector<std::string> members, Log& log,
                               std::function<bool()> owners_known = net::owners_are_known,
                               IsOwnAddress is_own = net::look_up_own_address);

}  // namespace muster::agent
