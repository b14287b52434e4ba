#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/job/spec.h"
#include "muster/net/socket.h"

namespace muster::launcher {

// A listening socket on a free port, of `ports` if that says which.
Result<net::Listener> open_door(const job::PortRange& ports);

// Where a job of that id meets when nobody says which port: `first` and 15 more, the same on every node. Whoever hosts
// takes the first that is free; who joins tries them in this order, and the handshake tells whether it is this job's.
// Pure.
std::vector<uint16_t> derived_ports(uint16_t first, std::string_view id);
// The same where not even the first is known by another name.
std::vector<uint16_t> derived_ports(std::string_view id);

// Where agents on other machines may find this one: numeric, best first. What the route to one of the hosts would use
// comes first; `interface` (--interface) leaves only its own.
Result<std::vector<std::string>> own_endpoints(uint16_t port, const std::string& interface,
                                               const std::vector<std::string>& hosts);

}  // namespace muster::launcher
