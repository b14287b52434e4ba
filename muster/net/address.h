#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::net {

// A socket address of either family.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string host() const;  // numeric, never looked up
  uint16_t port() const;
  Address with_port(uint16_t port) const;
  bool is_loopback() const;
  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"
};

// "10.0.0.1:29500", "n1:29500", "[::1]:29500"
std::string endpoint_text(std::string_view host, int port);

// The parts of such a text. The port follows the last colon, so an IPv6 address that has a port may lack the brackets;
// "n1" and "[::1]" have no port. kUsage: the port is not a number from 0 to 65535. Pure.
struct HostPort {
  std::string host;  // without brackets; any text, also an empty one
  std::optional<uint16_t> port;
};
Result<HostPort> parse_endpoint(std::string_view endpoint);
// The same for an endpoint to connect to: kUsage also if there is no port, or port 0.
Result<HostPort> split_endpoint(std::string_view endpoint);

// This machine's name as gethostname() gives it.
std::string hostname();

}  // namespace muster::net
