#pragma once

#include <cstdint>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/net/address.h"

namespace muster::net {

// All sockets are close-on-exec; those returned here are non-blocking with TCP_NODELAY.

struct ListenOptions {
  uint16_t port = 0;  // 0: chosen by the system
  bool loopback_only = false;
  int backlog = 65535;  // cut by the kernel to net.core.somaxconn
};

struct Listener {
  Fd fd;
  uint16_t port;
};

// Dual-stack on every interface ([::]), plain IPv4 if there is no IPv6. A taken port is a usage error that names the
// holder if /proc shows it.
Result<Listener> listen_tcp(const ListenOptions& options);

// Accepts one connection. No descriptor and no error if none is waiting.
Result<Fd> accept_tcp(int listener, Address* peer);

// Connects one socket. Each function returns an errno value, 0 for success; the caller decides which address is next
// and how long each may take.
// Starts, never blocks: `socket` becomes writable when connect_error() knows the outcome. A failure leaves it empty.
int start_connect(const Address& peer, Fd& socket);
// ECONNREFUSED also if the socket is connected with itself, which happens on a port of this machine that no process
// listens on: the kernel may take that port as the source.
int connect_error(int socket);
// Starts and waits. ETIMEDOUT: no answer until the deadline. A failure leaves `socket` empty.
int connect_until(const Address& peer, Deadline deadline, Fd& socket);

// Resolves and tries every address in turn, again after a refusal (the server may not be up yet), until the deadline.
// Errors: kTimeout, kPeer.
Result<Fd> connect_tcp(const std::string& host, uint16_t port, Deadline deadline);

// Waits until the descriptor has one of poll()'s events, or an error. 0, ETIMEDOUT at the deadline, or poll()'s errno.
int wait_for(int fd, short events, Deadline deadline);

Result<Address> local_address(int socket);

// Whether the other side has ended a TCP connection. False if it has only closed its sending side.
bool is_reset(int socket);

// "pid 4711 (python3)" for the process that listens on a TCP port of this machine; empty if /proc hides it.
std::string port_holder(uint16_t port);

}  // namespace muster::net
