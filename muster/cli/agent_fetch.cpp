#include "muster/cli/agent_fetch.h"

#include "muster/base/strings.h"
#include "muster/cli/user_key.h"
#include "muster/cli/values.h"
#include "muster/net/interfaces.h"
#include "muster/rendezvous/munge.h"

namespace muster::cli {
namespace {

using job::Token;
using rendezvous::Munge;

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

Result<Token> token_by_key(const std::string& nonce) {
  auto key = read_user_key(user_key_path(), false);
  if (!key) return key.error();
  if (!*key)
    return Error{ErrorKind::kPeer,
                 fmt::format("{} is not there: this node does not share its home directory", user_key_path()),
                 "copy that file to every node, or start munged on all of them"};
  return Token::derive(**key, nonce);
}

Result<Token> token_by_munge(const std::vector<net::Address>& addresses, const std::string& nonce, Deadline deadline) {
  MUSTER_TRY(Munge munge, Munge::open());
  return rendezvous::fetch_token(
      addresses, [&](const std::string& credential) { return munge.unseal(credential, nonce); }, deadline);
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
  const std::string& nonce = words.fetch.nonce;
  auto token = words.fetch.munge ? token_by_munge(addresses, nonce, deadline) : token_by_key(nonce);
  if (!token) return token.error();
  const std::string name = words.name.empty() ? own_name(environment_variable) : words.name;
  return rendezvous::fetch_description(addresses, *token, name + more, deadline);
}

}  // namespace

Result<rendezvous::Fetched> fetch_description(const FetchWords& words, Deadline deadline) {
  return ask_launcher(words, "", deadline);
}

void tell_launcher(const FetchWords& words, const Error& why, Deadline deadline) {
  constexpr size_t kLongest = 700;
  (void)ask_launcher(words, launcher::kComplaint + why.text().substr(0, kLongest), deadline);
}

Result<void> choose_secret(launcher::FanOut& spec) {
  constexpr size_t kNonceDigits = 32;
  spec.nonce = Token::random().hex().substr(0, kNonceDigits);
  spec.token = Token::random();
  auto munge = Munge::open();
  auto sealed = munge ? munge->seal(spec.token, spec.nonce) : Result<std::string>(munge.error());
  if (sealed) {
    spec.sealed_token = *std::move(sealed);
    return {};
  }
  auto key = read_user_key(user_key_path(), true);
  if (!key)
    return Error{
        ErrorKind::kUsage,
        fmt::format("no secret that the nodes have in common: {}; {}", sealed.error().message, key.error().message),
        "start munged, or share the home directory among the nodes"};
  spec.token = Token::derive(**key, spec.nonce);
  return {};
}

}  // namespace muster::cli
