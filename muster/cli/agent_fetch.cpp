#include "muster/cli/agent_fetch.h"

#include "muster/base/strings.h"
#include "muster/cli/values.h"
#include "muster/net/interfaces.h"
#include "muster/rendezvous/shared_secret.h"

namespace muster::cli {
namespace {

constexpr std::string_view kMunge = "munge", kKey = "key";

Error not_ours(const std::string& why) {
  return {ErrorKind::kUsage, fmt::format("muster agent is started by muster itself: {}", why),
          "write muster run PROGRAM"};
}

Result<net::Address> address_of(const std::string& endpoint) {
  auto parts = net::split_endpoint(endpoint);
  auto address = parts ? net::parse_address(parts->host, *parts->port) : parts.error();
  if (!address) return not_ours(fmt::format("'{}' is not an address with a port", endpoint));
  return address;
}

}  // namespace

Result<std::optional<FetchWords>> parse_fetch(const std::vector<std::string>& words) {
  if (words.empty()) return std::optional<FetchWords>();
  FetchWords found;
  std::string by;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return not_ours(fmt::format("{} has no value", words[i]));
    const std::string& value = words[i + 1];
    if (words[i] == "--fetch") {
      for (std::string_view endpoint : split(value, ',')) found.fetch.endpoints.emplace_back(endpoint);
    } else if (words[i] == "--nonce") {
      found.fetch.nonce = value;
    } else if (words[i] == "--by") {
      by = value;
    } else if (words[i] == "--name") {
      found.name = value;
    } else if (words[i] == "--program" && value == "temporary") {
      found.temporary = true;
    } else {
      return not_ours(fmt::format("it has no {}", words[i]));
    }
  }
  if (by != kMunge && by != kKey) return not_ours("--by munge or --by key says where the token comes from");
  if (found.fetch.endpoints.empty() || found.fetch.nonce.empty()) return not_ours("--fetch and --nonce go together");
  found.fetch.munge = by == kMunge;
  return std::optional(std::move(found));
}

std::string own_name(const GetEnv& getenv) {
  auto slurm = getenv("SLURMD_NODENAME");
  return slurm && !slurm->empty() ? *slurm : net::hostname();
}

namespace {

// The answer to a question that begins with our name.
Result<rendezvous::Fetched> ask_launcher(const FetchWords& words, const std::string& more, Deadline deadline) {
  std::vector<net::Address> addresses;
  for (const std::string& endpoint : words.fetch.endpoints) {
    MUSTER_TRY(net::Address address, address_of(endpoint));
    addresses.push_back(address);
  }
  MUSTER_TRY(const job::Token token,
             rendezvous::find_secret(addresses, words.fetch.nonce, words.fetch.munge, deadline));
  const std::string name = words.name.empty() ? own_name(environment_variable) : words.name;
  return rendezvous::fetch_description(addresses, token, name + more, deadline);
}

}  // namespace

Result<rendezvous::Fetched> fetch_description(const FetchWords& words, Deadline deadline) {
  return ask_launcher(words, "", deadline);
}

void tell_launcher(const FetchWords& words, const Error& why, Deadline deadline) {
  constexpr size_t kLongest = 700;
  (void)ask_launcher(words, launcher::kComplaint + why.text().substr(0, kLongest), deadline);
}

}  // namespace muster::cli
