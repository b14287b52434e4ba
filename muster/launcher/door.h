#pragma once

#include <string>
#include <vector>

#include "muster/agent/job.h"
#include "muster/net/socket.h"

namespace muster::launcher {

// A listening socket on a free port, of `ports` if that says which.
Result<net::Listener> open_door(const agent::PortRange& ports);

// Where agents on other machines may find this one: numeric, best first. What the route to one of the hosts would use
// comes first; `interface` (--interface) leaves only its own.
Result<std::vector<std::string>> own_endpoints(uint16_t port, const std::string& interface,
                                               const std::vector<std::string>& hosts);

}  // namespace muster::launcher
