#include "muster/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"

namespace muster::net {

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
  } else if (storage.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address))  // an IPv4 peer of a dual-stack socket
      inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
    else
      inet_ntop(AF_INET6, &address, text, sizeof text);
  }
  return text;
}

uint16_t Address::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return 0;
}

Address Address::with_port(uint16_t port) const {
  Address address = *this;
  if (storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
  if (storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
  return address;
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  if (storage.ss_family != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

std::string Address::text() const { return endpoint_text(host(), port()); }

std::string endpoint_text(std::string_view host, int port) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_endpoint(std::string_view endpoint) {
  HostPort parts;
  std::string_view host = endpoint;
  const bool bracketed = endpoint.starts_with('[') && endpoint.ends_with(']');
  if (const size_t colon = endpoint.rfind(':'); !bracketed && colon != std::string_view::npos) {
    host = endpoint.substr(0, colon);
    auto port = parse_int(endpoint.substr(colon + 1));
    if (!port || *port < 0 || *port > UINT16_MAX)
      return Error{ErrorKind::kUsage, fmt::format("'{}' has no port from 0 to 65535", endpoint),
                   "write HOST:PORT, and an IPv6 address in brackets"};
    parts.port = static_cast<uint16_t>(*port);
  }
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  parts.host = host;
  return parts;
}

Result<HostPort> split_endpoint(std::string_view endpoint) {
  MUSTER_TRY(HostPort parts, parse_endpoint(endpoint));
  if (parts.port.value_or(0) == 0) return usage_error("'{}' has no port", endpoint);
  return parts;
}

std::string hostname() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace muster::net
