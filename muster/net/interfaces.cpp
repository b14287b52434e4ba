#include "muster/net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "muster/base/fd.h"
#include "muster/base/usage_error.h"
#include "muster/net/socket.h"

namespace muster::net {
namespace {

// The bytes that a prefix length counts.
std::string address_bytes(const Address& address) {
  if (address.storage.ss_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof ip};
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
  return {reinterpret_cast<const char*>(&ip), sizeof ip};
}

bool same_prefix(std::string_view a, std::string_view b, size_t bits) {
  if (a.size() != b.size()) return false;
  const size_t whole = bits / 8;
  if (a.substr(0, whole) != b.substr(0, whole)) return false;
  if (bits % 8 == 0) return true;
  const int mask = 0xff << (8 - bits % 8) & 0xff;
  return (a[whole] & mask) == (b[whole] & mask);
}

Error no_match(std::string_view wanted, const std::vector<InterfaceAddress>& all) {
  std::string known;
  for (const InterfaceAddress& each : all)
    if (!each.loopback)
      known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.interface, each.address.host());
  return {ErrorKind::kUsage, fmt::format("no interface of this machine is '{}'", wanted),
          known.empty() ? "there is none but loopback" : "there are " + known};
}

bool is_link_local(const Address& address) {
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

// The interface that a link-local address belongs to; another interface's neighbours may have the same address.
// 0: the address is not a link-local one.
uint32_t link_of(const Address& address) {
  return is_link_local(address) ? reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_scope_id : 0;
}

// Of all interfaces that are up, in the kernel's order.
Result<std::vector<InterfaceAddress>> all_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error(errno, "cannot read the list of this machine's interfaces");
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    InterfaceAddress entry;
    entry.interface = each->ifa_name;
    entry.loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    entry.address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&entry.address.storage, each->ifa_addr, entry.address.length);
    found.push_back(std::move(entry));
  }
  ::freeifaddrs(list);
  return found;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  auto found = all_addresses();
  if (!found) return {};
  std::erase_if(*found, [](const InterfaceAddress& each) { return is_link_local(each.address); });
  return *std::move(found);
}

bool is_own_address(const Address& address) {
  auto own = look_up_own_address(address);
  return own && *own;
}

Result<bool> look_up_own_address(const Address& address) {
  if (address.is_loopback()) return true;
  const std::string host = address.host();
  MUSTER_TRY(const std::vector<InterfaceAddress> all, all_addresses());
  return std::any_of(all.begin(), all.end(), [&](const InterfaceAddress& each) {
    return each.address.host() == host && link_of(each.address) == link_of(address);
  });
}

Result<std::vector<InterfaceAddress>> select_interfaces(const std::vector<InterfaceAddress>& all,
                                                        std::string_view wanted) {
  std::vector<InterfaceAddress> chosen;
  const size_t slash = wanted.find('/');
  if (slash == std::string_view::npos) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                 [&](const auto& each) { return each.interface == wanted || each.address.host() == wanted; });
  } else {
    auto network = parse_address(wanted.substr(0, slash), 0);
    size_t bits = 0;
    const std::string_view digits = wanted.substr(slash + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (!network || error != std::errc() || end != digits.data() + digits.size() ||
        bits > 8 * address_bytes(*network).size())
      return Error{ErrorKind::kUsage, fmt::format("'{}' is not a network", wanted), "write it as 10.0.0.0/8"};
    const std::string prefix = address_bytes(*network);
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                 [&](const auto& each) { return same_prefix(address_bytes(each.address), prefix, bits); });
  }
  if (chosen.empty()) return no_match(wanted, all);
  return chosen;
}

std::string interface_of(const std::vector<InterfaceAddress>& all, std::string_view address) {
  auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.address.host() == address; });
  return found == all.end() ? std::string() : found->interface;
}

Result<Address> source_address_towards(const Address& peer) {
  Fd socket(::socket(peer.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address target = peer;
  if (target.port() == 0) reinterpret_cast<sockaddr_in&>(target.storage).sin_port = htons(9);
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.storage), target.length) != 0)
    return system_error(errno, fmt::format("no route to {}", peer.host()));
  return local_address(socket.get());
}

Result<Address> parse_address(std::string_view host, uint16_t port) {
  const std::string text(host);
  Address address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.length = sizeof v4;
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.length = sizeof v6;
    return address;
  }
  return usage_error("'{}' is not a numeric address", text);
}

}  // namespace muster::net
