#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "muster/net/address.h"

namespace muster::net {

// Who holds the other end of a TCP connection when that is on this machine: asks the kernel for the socket that is
// bound to `client` and connected to `server`; where it has no answer (sock_diag is a module), looks into its tables
// in /proc. Nothing when there is no such socket here, or neither tells.
// kNoOwner when it is closed there: the kernel still sends what is left, and no longer knows for whom.
constexpr uid_t kNoOwner = static_cast<uid_t>(-1);
std::optional<uid_t> connection_owner(const Address& client, const Address& server);

// Whether connection_owner() tells this user's own connections on this machine: makes one on loopback and asks. Then a
// connection without an answer is not one of this user's. True also if no connection can be made, for want of descriptors
// say: nothing is then known in favour of a stranger. Blocks for a second at most.
bool owners_are_known();

// connection_owner() from the tables alone, and from the text of one: /proc/net/tcp or tcp6. The latter is pure.
std::optional<uid_t> owner_in_tables(const Address& client, const Address& server);
std::optional<uid_t> owner_in_table(std::string_view table, const Address& client, const Address& server);

}  // namespace muster::net
