#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::net {

// A socket address of either family.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string host() const;  // numeric, never looked up
  uint16_t port() const;
  bool is_loopback() const;
  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"
};

// getaddrinfo: may ask the resolver, and so may block for its time-outs (seconds).
Result<std::vector<Address>> resolve(const std::string& host, uint16_t port);

// The same for "10.0.0.1:4711", "[fd00::1]:4711" or "n1:29400".
Result<std::vector<Address>> resolve_endpoint(const std::string& endpoint);

// This machine's name as gethostname() gives it.
std::string hostname();

// What Python's socket.getfqdn() returns here; asks the resolver when the hosts file has no answer.
std::string fully_qualified_hostname();

}  // namespace muster::net
