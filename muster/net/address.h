#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::net {

// A host as the user typed it (name or literal, brackets removed) and a port, if one was given.
struct HostPort {
  std::string host;
  std::optional<uint16_t> port;
  bool operator==(const HostPort&) const = default;
};

// "host", "host:29400", "[::1]:29400", "[::1]". An empty text, a bad port or a bare IPv6 literal is an error that
// says how to write it.
Result<HostPort> parse_host_port(std::string_view text);

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

// This machine's name as gethostname() gives it.
std::string hostname();

// What Python's socket.getfqdn() returns here; asks the resolver when the hosts file has no answer.
std::string fully_qualified_hostname();

}  // namespace muster::net
