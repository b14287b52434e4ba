#pragma once

#include <sys/types.h>

#include <optional>

#include "muster/net/address.h"

namespace muster::net {

// Who holds the other end of a TCP connection when that is on this machine: asks the kernel for the socket that is
// bound to `client` and connected to `server`. Nothing when there is no such socket here, or the kernel does not tell.
// kNoOwner when it is closed there: the kernel still sends what is left, and no longer knows for whom.
constexpr uid_t kNoOwner = static_cast<uid_t>(-1);
std::optional<uid_t> connection_owner(const Address& client, const Address& server);

}  // namespace muster::net
