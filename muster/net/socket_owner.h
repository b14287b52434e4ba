#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "muster/net/address.h"

namespace muster::net {

// The user that owns the other end of a TCP connection, if that end is on this machine. Asks the kernel for the socket
// that is bound to `client` and connected to `server`. If it has no answer (sock_diag is a module), reads its tables in
// /proc. Nothing if there is no such socket here, or the kernel does not tell.
// kNoOwner if the socket is closed: the kernel still sends its data, but no longer knows the owner.
constexpr uid_t kNoOwner = static_cast<uid_t>(-1);
std::optional<uid_t> connection_owner(const Address& client, const Address& server);

// Whether connection_owner() works for this user's own connections: makes one on loopback and asks. If it does, a
// connection without an answer belongs to another user. True also if no connection can be made, for example without
// descriptors, so that a stranger gets no advantage. Blocks for at most a second.
bool owners_are_known();

// connection_owner() from the tables alone, and from the text of one: /proc/net/tcp or tcp6. The latter is pure.
std::optional<uid_t> owner_in_tables(const Address& client, const Address& server);
std::optional<uid_t> owner_in_table(std::string_view table, const Address& client, const Address& server);

}  // namespace muster::net
