#include "muster/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

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

std::string Address::text() const {
  std::string numeric = host();
  if (numeric.find(':') != std::string::npos) return fmt::format("[{}]:{}", numeric, port());
  return fmt::format("{}:{}", numeric, port());
}

std::string hostname() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace muster::net
