#include "muster/job/token.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/job/crypto.h"

namespace muster::job {
namespace {

static_assert(Token::kSize >= crypto_generichash_KEYBYTES_MIN && Token::kSize <= crypto_generichash_KEYBYTES_MAX);

// Apart from every other use of the same secret.
constexpr std::string_view kJobLabel = "muster job token";
constexpr std::string_view kWordsLabel = "muster job token from words";
static_assert(kWordsLabel.size() >= crypto_generichash_KEYBYTES_MIN);

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

Result<Token> Token::derive_from_words(std::string_view secret, std::string_view job) {
  if (parse(secret)) return derive(trim(secret), job);
  init_crypto();
  // A salt need not be secret, and all nodes must have the same: a table of guesses made for one job fits no other.
  std::array<unsigned char, crypto_pwhash_SALTBYTES> salt;
  crypto_generichash(salt.data(), salt.size(), bytes_of(job), job.size(), bytes_of(kWordsLabel), kWordsLabel.size());
  Token token;
  if (crypto_pwhash(token.bytes_.data(), kSize, secret.data(), secret.size(), salt.data(),
                    crypto_pwhash_OPSLIMIT_INTERACTIVE, crypto_pwhash_MEMLIMIT_INTERACTIVE,
                    crypto_pwhash_ALG_ARGON2ID13) != 0)
    return Error{ErrorKind::kSystem,
                 fmt::format("not enough memory to turn the secret into a token: it takes {} MiB",
                             crypto_pwhash_MEMLIMIT_INTERACTIVE >> 20),
                 "give a random secret of 64 hexadecimal digits, which takes none: openssl rand -hex 32"};
  return token;
}

void Token::set_job(std::string job) {
  job_ = std::move(job);
  if (job_.size() > kLongestJob) job_.resize(kLongestJob);
}

bool Token::same_job(std::string_view one, std::string_view other) {
  return one == other || one == kAnyJob || other == kAnyJob;
}

std::string Token::hex() const {
  std::string text(2 * kSize + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes_.data(), kSize);
  text.pop_back();
  return text;
}

Error another_job(std::string_view who, std::string_view theirs, std::optional<std::string_view> ours) {
  auto words = [](std::string_view job) { return job.empty() ? "no scheduler's job" : std::string(job); };
  std::string text = fmt::format("{}belongs to another job of yours", who);
  if (ours)
    text += fmt::format(": {}; this is {}", words(theirs), words(*ours));
  else if (!theirs.empty())
    text += fmt::format(": {}", theirs);
  return {
      ErrorKind::kPeer, std::move(text),
      "give each job its own port; to make one job of both, start it with as many --nnodes and give all its nodes the "
      "same MUSTER_TOKEN"};
}

bool Token::operator==(const Token& other) const { return sodium_memcmp(data(), other.data(), kSize) == 0; }

}  // namespace muster::job
