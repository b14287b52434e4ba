#include "muster/rendezvous/token.h"

#include <sodium.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/rendezvous/crypto.h"

namespace muster::rendezvous {
namespace {

static_assert(Token::kSize >= crypto_generichash_KEYBYTES_MIN && Token::kSize <= crypto_generichash_KEYBYTES_MAX);

// Apart from every other use of the same secret.
constexpr std::string_view kJobLabel = "muster job token";

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

Token::~Token() { sodium_memzero(bytes_.data(), bytes_.size()); }

Token Token::random() {
  init_crypto();
  Token token;
  randombytes_buf(token.bytes_.data(), kSize);
  return token;
}

Result<Token> Token::parse(std::string_view text) {
  text = trim(text);
  Token token;
  size_t size = 0;
  const char* end = nullptr;
  bool hex = sodium_hex2bin(token.bytes_.data(), kSize, text.data(), text.size(), nullptr, &size, &end) == 0;
  if (!hex || size != kSize || end != text.data() + text.size())
    return Error{
        ErrorKind::kUsage, fmt::format("not a token: it has {} hexadecimal digits and nothing else", 2 * kSize), {}};
  return token;
}

Token Token::of_bytes(const unsigned char* bytes) {
  Token token;
  std::copy_n(bytes, kSize, token.bytes_.begin());
  return token;
}

Token Token::derive(std::string_view secret, std::string_view job) {
  init_crypto();
  Token key;  // a secret of any length and spread, made into a key
  crypto_generichash(key.bytes_.data(), kSize, bytes_of(secret), secret.size(), nullptr, 0);
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), kSize, kSize);
  crypto_generichash_update(&state, bytes_of(kJobLabel), kJobLabel.size());
  crypto_generichash_update(&state, bytes_of(job), job.size());
  Token token;
  crypto_generichash_final(&state, token.bytes_.data(), kSize);
  sodium_memzero(&state, sizeof state);
  return token;
}

std::string Token::hex() const {
  std::string text(2 * kSize + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes_.data(), kSize);
  text.pop_back();
  return text;
}

bool Token::operator==(const Token& other) const { return sodium_memcmp(data(), other.data(), kSize) == 0; }

}  // namespace muster::rendezvous
