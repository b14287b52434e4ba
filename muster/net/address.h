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
  Address with_port(uint16_t port) const;
  bool is_loopback() const;
  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"
};

// This machine's name as gethostname() gives it.
std::string hostname();

}  // namespace muster::net
