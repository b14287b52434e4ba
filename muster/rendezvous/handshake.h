#pragma once

#include <sodium/crypto_secretstream_xchacha20poly1305.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/job/token.h"
#include "muster/rendezvous/channel.h"

namespace muster::rendezvous {

// The client hello, the refusal's size and the first bytes up to the version are the same in every protocol version, so
// that peers of different versions can tell each other.
inline constexpr size_t kClientHelloSize = 64;  // magic 8, protocol 2, purpose 1, zero 1, version 20, public key 32
inline constexpr size_t kServerHelloSize = 96;  // magic 8, protocol 2, zero 2, version 20, nonce 32, public key 32
inline constexpr size_t kRefusalSize = 120;     // as the server hello up to the version, then zeros
inline constexpr size_t kProofSize = 56;        // header 24, proof 32
// Then a frame: an empty message: the client is in; else the name of the server's job; a length of 0: wrong token.
inline constexpr size_t kEntryHeaderSize = 24;

// What a frame adds to a message: its length and libsodium's tag and authenticator.
inline constexpr size_t kLengthSize = 4;
inline constexpr size_t kSealSize = crypto_secretstream_xchacha20poly1305_ABYTES;

// Wiped when destroyed.
struct Key : std::array<unsigned char, 32> {
  Key() : array{} {}
  ~Key();
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
};
using StreamHeader = std::array<unsigned char, crypto_secretstream_xchacha20poly1305_HEADERBYTES>;

// One direction of an open connection. Wiped when destroyed.
class SecretStream {
 public:
  SecretStream() = default;
  ~SecretStream();
  SecretStream(const SecretStream&) = delete;
  SecretStream& operator=(const SecretStream&) = delete;

  StreamHeader start_sealing(const Key& key);
  void start_opening(const Key& key, const StreamHeader& header);

  // Appends the message's frame.
  void seal(std::string_view message, std::string& frames);
  // Of a frame, without its length, decrypted where it lies. Nothing: the peer did not seal this.
  std::optional<std::string_view> open(char* sealed, size_t size);

 private:
  crypto_secretstream_xchacha20poly1305_state state_{};
};

// One side's ephemeral X25519 keys. Wiped when destroyed.
struct KeyPair {
  std::array<unsigned char, 32> public_key{};
  Key secret_key;
  static std::shared_ptr<const KeyPair> make();
};

// What came of a frame of the peer's.
enum class Verdict {
  kGood,
  kNotMuster,
  kOtherVersion,
  kWrongToken,
  kAnotherJob,  // the peer holds the token, and is of another job (Token::job())
  kAsksToken,   // the client has no token: sealed_answer() is all that the server has for it
};

// Either side's part of the handshake that channel.h draws, without I/O.
//
// The proof is a hash, under the token, of both hellos: it holds for this connection alone, and the server checks it
// before it computes anything costly. The keys of the two streams come from that hash and from the key exchange of the
// hellos' ephemeral keys: a token that is stolen later opens no recorded connection. Heartbeats, which carry counters
// and clocks only, do without the key exchange: it would be most of what a coordinator of 10,000 nodes spends on them.
class Handshake {
 public:
  // `keys`: a server's, for several connections (see Acceptor); none: made for this one.
  Handshake(const job::Token& token, Purpose purpose, std::shared_ptr<const KeyPair> keys = nullptr)
      : token_(token), purpose_(purpose), keys_(std::move(keys)) {}

  // Client. What to send first; then, given the server's hello, the proof, after which `out` may be used; then, given
  // the beginning of the entry, `in`.
  std::string call();
  Verdict answered(std::string_view server_hello, SecretStream& out, std::string& proof);
  void enter(std::string_view entry_header, SecretStream& in) const;

  // Server. Given the client's hello, the answer: for a good one our hello, for another version the refusal. Then,
  // given the proof, both streams and the beginning of the entry.
  Verdict called(std::string_view client_hello, std::string& answer);
  Verdict proven(std::string_view proof, SecretStream& in, SecretStream& out, std::string& entry_header);

  // Whether this can be the beginning of the peer's hello.
  static bool begins_client_hello(std::string_view bytes);
  static bool begins_server_hello(std::string_view bytes);

  Purpose purpose() const { return purpose_; }
  const std::string& peer_version() const { return peer_version_; }
  int peer_protocol() const { return peer_protocol_; }

 private:
  bool exchanges_keys() const { return purpose_ != Purpose::kHeartbeat; }
  void agree(std::string_view client_hello, std::string_view server_hello);
  bool exchange_keys(bool server);
  Key derive(std::string_view label, const StreamHeader* header = nullptr) const;
  bool read_peer(std::string_view hello);

  job::Token token_;
  Purpose purpose_;
  std::shared_ptr<const KeyPair> keys_;
  std::string hello_;  // the client's own, until the answer comes
  std::array<unsigned char, 32> peer_key_{};
  Key secret_;  // of this connection: from token and hellos, then from the key exchange too
  std::string peer_version_;
  int peer_protocol_ = 0;
};

// The whole answer to a client hello of kSealedToken.
std::string sealed_answer(std::string_view credential);
// The credential in it, of which more than `bytes` may be to come (nothing); empty: there is none. From anybody. kPeer:
// another version of muster; kSystem: not muster. Pure.
Result<std::optional<std::string>> read_sealed_answer(std::string_view bytes);

}  // namespace muster::rendezvous
