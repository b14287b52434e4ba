#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "muster/base/fd.h"
#include "muster/base/log.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/store/wire.h"

namespace muster::store {

enum class Admission {
  kWelcome,
  kStranger,  // closed with a log line
  kGone       // hung up before its owner was known: not served, not logged
};

using AcceptPeer = std::function<Admission(const net::Address& peer, const net::Address& local)>;

struct ServerOptions {
  // Called for each new connection, with the local address to which it came. Empty: every client is served.
  AcceptPeer accept_peer = {};
  // Limits for the unsent replies of one connection. Above the first its further requests wait. Above the second, which
  // a single reply or events of watched keys may reach, the connection is closed.
  size_t pause_output_at = 1 << 20;
  size_t max_output = 256 << 20;
  // Limit for the bytes of one request. A client that sends a longer one is closed.
  size_t max_request = Limits::kRequest;
  // Limit for connections from one address; more are refused with a log line. A job of many process groups opens tens
  // per worker, and all workers of simulated nodes share one address.
  size_t max_connections_per_peer = 16384;
};

// A server of PyTorch's TCPStore protocol for clients from 1.13 to 2.15, each in its own dialect (wire.h says how they
// are told apart). One thread: that of the loop, which must outlive the server. Never blocks, never asks the resolver.
//
// A client that breaks the protocol or a limit is closed, with one log line that names it. Other clients do not notice.
class Server {
 public:
  Server(net::EventLoop& loop, Log& log, ServerOptions options = {});
  ~Server();  // closes

  // Port 0: chosen by the system. A taken port is a usage error.
  Result<void> listen(uint16_t port, bool loopback_only = false);
  uint16_t port() const;  // 0 when not listening

  // Serves a connection that the caller accepted and of which it has read `first_bytes`. The socket is non-blocking.
  void adopt(Fd connection, const net::Address& peer, std::string_view first_bytes);

  // Closes every connection and the port, which can be bound again at once, and forgets all keys. Not from inside a
  // callback of this server.
  void close();

  size_t connections() const;
  size_t keys() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::store
