#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/net/address.h"

namespace muster::net {

struct InterfaceAddress {
  std::string interface;  // "eth0"
  Address address;        // port 0
  bool loopback = false;
};

// The addresses of all interfaces that are up, in the kernel's order, without link-local IPv6 addresses, which mean
// nothing on other machines. Empty also if the list cannot be read.
std::vector<InterfaceAddress> interface_addresses();

// Whether an interface of this machine has the address, whatever its port; all of 127.0.0.0/8 is this machine's. Reads
// the list of interfaces. It does not try to bind the address: with the sysctl ip_nonlocal_bind, every address can be
// bound. False also if the list cannot be read.
bool is_own_address(const Address& address);
// The same, with an error if the list cannot be read: no descriptor or no memory is left.
Result<bool> look_up_own_address(const Address& address);

// Those of them that `wanted` means: an interface ("eth0") or a network ("10.0.0.0/8", "fd00::/64"). Pure.
Result<std::vector<InterfaceAddress>> select_interfaces(const std::vector<InterfaceAddress>& all,
                                                        std::string_view wanted);

// The interface that has a numeric address; empty: none.
std::string interface_of(const std::vector<InterfaceAddress>& all, std::string_view address);

// The address from which this machine would send to another. Asks the routing table, sends nothing.
Result<Address> source_address_towards(const Address& peer);

// Reads a numeric address, never asks the resolver: "10.0.0.1", "fd00::1".
Result<Address> parse_address(std::string_view host, uint16_t port);

}  // namespace muster::net
