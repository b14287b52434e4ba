#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/job/token.h"
#include "muster/net/address.h"

namespace muster::rendezvous {

// What an agent, or a node that joins, asks the coordinator for before it has anything else. Both block, try the
// addresses in order and then again from the first, and give up at the deadline with what went wrong at each.

// The token, in the envelope that the coordinator has for every client that asks (CoordinatorOptions::sealed_token): an
// answer is believed only if `unseal` opens it. Munge::unseal() may take its own time. `began`: when it was asked for
// first, for the message. kPeer, at once: a muster answers at every address, and each has another job's token, another
// user's or none, or is of another version (`unseal` says kPeer too; its other errors may pass).
using Unseal = std::function<Result<job::Token>(const std::string& credential)>;
Result<job::Token> fetch_token(const std::vector<net::Address>& addresses, const Unseal& unseal, Deadline deadline,
                               TimePoint began = Clock::now());

// What CoordinatorClient::describe() says of `name`. An answer that there is no such host is an error at once, and so
// is a wrong token from every address.
struct Fetched {
  std::string description;
  Fd connection;  // hangs up when the coordinator is gone, or has no use for whom it describes; to be closed by a member
};
Result<Fetched> fetch_description(const std::vector<net::Address>& addresses, const job::Token& token,
                                  std::string_view name, Deadline deadline);

}  // namespace muster::rendezvous
