#include "muster/rendezvous/shared_secret.h"

#include <fmt/format.h>

#include "muster/rendezvous/fetch.h"
#include "muster/rendezvous/munge.h"
#include "muster/rendezvous/user_key.h"

namespace muster::rendezvous {
namespace {

using job::Token;

Result<Token> token_by_key(const std::string& nonce) {
  MUSTER_TRY(std::optional<std::string> key, read_user_key(user_key_path(), false));
  if (key) return Token::derive(*key, nonce);
  return Error{ErrorKind::kPeer,
               fmt::format("{} is not there: this node does not share its home directory", user_key_path()),
               "copy that file to every node, or start munged on all of them"};
}

}  // namespace

Result<SharedSecret> choose_secret() {
  constexpr size_t kNonceDigits = 32;
  SharedSecret secret;
  secret.nonce = Token::random().hex().substr(0, kNonceDigits);
  auto munge = Munge::open();
  auto sealed = munge ? munge->seal(secret.token, secret.nonce) : Result<std::string>(munge.error());
  if (sealed) {
    secret.sealed = *std::move(sealed);
    return secret;
  }
  auto key = read_user_key(user_key_path(), true);
  if (!key)
    return Error{
        ErrorKind::kUsage,
        fmt::format("no secret that the nodes have in common: {}; {}", sealed.error().message, key.error().message),
        "start munged, or share the home directory among the nodes"};
  secret.token = Token::derive(**key, secret.nonce);
  return secret;
}

Result<Token> find_secret(const std::vector<net::Address>& coordinators, const std::string& nonce, bool by_munge,
                          Deadline deadline) {
  if (!by_munge) return token_by_key(nonce);
  MUSTER_TRY(Munge munge, Munge::open());
  return fetch_token(
      coordinators, [&](const std::string& credential) { return munge.unseal(credential, nonce); }, deadline);
}

}  // namespace muster::rendezvous
