#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/launcher/fan_out.h"
#include "muster/rendezvous/fetch.h"

namespace muster::cli {

// `muster agent --fetch …`, as cluster::fetch_command() writes it: the words that a scheduler starts an agent with.
struct FetchWords {
  cluster::Fetch fetch;
  std::string name;        // of the host; empty: own_name(), which the agent then tells on its stdout
  bool temporary = false;  // our program is a file that was made for this agent alone
  bool operator==(const FetchWords&) const = default;
};
// Nothing: there are no words, and the description comes on stdin. Pure.
Result<std::optional<FetchWords>> parse_fetch(const std::vector<std::string>& words);

// What the launcher's list is likely to call this node: the scheduler's name for it, else the machine's own.
std::string own_name(const GetEnv& getenv);

// Asks the launcher for the description, encoded, with the connection that tells of its end; first for the token that
// this takes. Blocks until the deadline.
Result<rendezvous::Fetched> fetch_description(const FetchWords& words, Deadline deadline);

// Tells the launcher why this agent ends before it has joined: where a scheduler started it nobody reads its stderr.
// Blocks until the deadline at most; who cannot be told is not.
void tell_launcher(const FetchWords& words, const Error& why, Deadline deadline);

}  // namespace muster::cli
