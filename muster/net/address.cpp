#include "muster/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

#include "muster/base/strings.h"

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

Result<std::vector<Address>> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return Error{ErrorKind::kPeer, fmt::format("cannot resolve '{}': {}", host, gai_strerror(error)), {}};
  std::vector<Address> addresses;
  for (addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Result<std::vector<Address>> resolve_endpoint(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  uint16_t port = 0;
  if (colon != std::string::npos) std::from_chars(endpoint.data() + colon + 1, endpoint.data() + endpoint.size(), port);
  if (port == 0) return usage_error("'{}' has no port", endpoint);
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return resolve(host, port);
}

std::string hostname() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string fully_qualified_hostname() {
  std::string name = hostname();
  // Python: name -> first IPv4 address -> its canonical name and aliases; the first of them with a dot, else the
  // canonical name, else the host name itself.
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const in_addr address = reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  hostent entry{};
  hostent* result = nullptr;
  std::vector<char> buffer(8192);
  int error = 0;
  if (::gethostbyaddr_r(&address, sizeof address, AF_INET, &entry, buffer.data(), buffer.size(), &result, &error) !=
          0 ||
      result == nullptr)
    return name;
  std::string canonical = result->h_name;
  if (canonical.find('.') != std::string::npos) return canonical;
  for (char** alias = result->h_aliases; *alias != nullptr; ++alias)
    if (std::strchr(*alias, '.') != nullptr) return *alias;
  return canonical;
}

}  // namespace muster::net
