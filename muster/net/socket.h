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

// Dual-stack on every interface ([::]), plain IPv4 where there is no IPv6. A taken port is a usage error that names
// the holder where /proc shows it.
Result<Listener> listen_tcp(const ListenOptions& options);

// Accepts one connection; no descriptor and no error when none is waiting.
Result<Fd> accept_tcp(int listener, Address* peer);

// Resolves and tries every address in turn, again after a refusal (the server may not be up yet), until the deadline.
// Errors: kTimeout, kPeer.
Result<Fd> connect_tcp(const std::string& host, uint16_t port, Deadline deadline);

Result<Address> local_address(int socket);

// Whether the other side has broken off a TCP connection; not when it has only closed its sending side.
bool is_reset(int socket);

// "pid 4711 (python3)" for the process that listens on a TCP port of this machine; empty where /proc hides it.
std::string port_holder(uint16_t port);

}  // namespace muster::net
