#pragma once

#include <sodium/crypto_secretstream_xchacha20poly1305.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/token.h"

namespace muster::rendezvous {

// Sizes and the first bytes up to the version are the same in every protocol version, so that peers of different ones
// can tell each other.
inline constexpr size_t kClientHelloSize = 64;  // magic 8, protocol 2, purpose 1, zero 1, version 20, nonce 32
inline constexpr size_t kServerHelloSize =
    120;                                  // magic 8, protocol 2, zero 2, version 20, nonce 32; header 24, proof 32
inline constexpr size_t kProofSize = 56;  // header 24, proof 32

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

// What came of a frame of the peer's.
enum class Verdict {
  kGood,
  kNotMuster,
  kOtherVersion,
  kWrongToken,
  kAsksToken,  // of somebody who has none: sealed_answer() is all there is for him
};

// Either side's part of the handshake that channel.h draws, without I/O. All keys come from one hash, under the token,
// of both hellos and so of both nonces: a proof of the last connection proves nothing in this one.
class Handshake {
 public:
  Handshake(const Token& token, Purpose purpose) : token_(token), purpose_(purpose) {}

  // Client. What to send first; then, given the server's hello, the proof. A server that holds another token is told
  // so by an empty proof, one of another version is told nothing.
  std::string call();
  Verdict answered(std::string_view server_hello, SecretStream& in, SecretStream& out, std::string& proof);

  // Server. Given the client's hello, the answer: for a good one our hello, for another version the refusal.
  Verdict called(std::string_view client_hello, SecretStream& out, std::string& answer);
  Verdict proven(std::string_view proof, SecretStream& in);

  // Whether this can be the beginning of the peer's hello.
  static bool begins_client_hello(std::string_view bytes);
  static bool begins_server_hello(std::string_view bytes);

  Purpose purpose() const { return purpose_; }
  const std::string& peer_version() const { return peer_version_; }
  int peer_protocol() const { return peer_protocol_; }

 private:
  void agree(std::string_view client_hello, std::string_view server_hello);
  Key derive(std::string_view label, const StreamHeader* header = nullptr) const;
  bool read_peer(std::string_view hello);

  Token token_;
  Purpose purpose_;
  std::string hello_;  // the client's own, until the answer comes
  Key secret_;         // of this connection: what token and hellos make
  std::string peer_version_;
  int peer_protocol_ = 0;
};

// The whole answer to a client hello of kSealedToken.
std::string sealed_answer(std::string_view credential);
// The credential in it, of which more than `bytes` may be to come (nothing); empty: there is none. From anybody. Pure.
Result<std::optional<std::string>> read_sealed_answer(std::string_view bytes);

}  // namespace muster::rendezvous
