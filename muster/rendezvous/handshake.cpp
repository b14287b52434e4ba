#include "muster/rendezvous/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "muster/base/version.h"
#include "muster/job/crypto.h"
#include "muster/rendezvous/munge.h"

namespace muster::rendezvous {
namespace {

// They differ, so that a connection that met itself (a port of its own machine that nobody listened on) is no peer.
constexpr std::string_view kClientMagic = "\xD7muster?";
constexpr std::string_view kServerMagic = "\xD7muster!";
static_assert(static_cast<unsigned char>(kClientMagic[0]) == kFirstByte);

constexpr size_t kMagicSize = 8;
constexpr size_t kVersionSize = 20;
constexpr size_t kVersionAt = 12;
constexpr size_t kNonceAt = kVersionAt + kVersionSize;
constexpr size_t kNonceSize = 32;
constexpr size_t kHeadSize = kNonceAt + kNonceSize;  // of either hello: all of the client's
constexpr size_t kPublicKeySize = crypto_kx_PUBLICKEYBYTES;
constexpr size_t kHeaderSize = sizeof(StreamHeader);
static_assert(kClientMagic.size() == kMagicSize && kServerMagic.size() == kMagicSize);
// A client's public key is made for one connection, and so is its nonce too.
static_assert(kHeadSize == kClientHelloSize && kNonceSize == kPublicKeySize);
static_assert(kHeadSize + kPublicKeySize == kServerHelloSize && kServerHelloSize <= kRefusalSize);
static_assert(kHeaderSize + sizeof(Key) == kProofSize && kHeaderSize == kEntryHeaderSize);
static_assert(sizeof(Key) == crypto_kx_SECRETKEYBYTES);
static_assert(sizeof(Key) == crypto_secretstream_xchacha20poly1305_KEYBYTES);

constexpr std::string_view kSessionLabel = "muster session";
constexpr std::string_view kExchangeLabel = "muster key exchange";
constexpr std::string_view kClientProof = "client proof";
constexpr std::string_view kClientKey = "client to server";
constexpr std::string_view kServerKey = "server to client";

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
std::string_view text_of(const auto& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

StreamHeader header_at(std::string_view frame, size_t offset) {
  StreamHeader header;
  std::memcpy(header.data(), frame.data() + offset, header.size());
  return header;
}

bool proves(std::string_view frame, size_t offset, const Key& expected) {
  return sodium_memcmp(bytes_of(frame) + offset, expected.data(), expected.size()) == 0;
}

// Magic, protocol, purpose (the server's is zero), version; the nonce is left zero.
std::string head(std::string_view magic, uint8_t purpose) {
  std::string frame(kHeadSize, '\0');
  magic.copy(frame.data(), kMagicSize);
  frame[8] = static_cast<char>(kProtocolVersion & 0xff);
  frame[9] = static_cast<char>(kProtocolVersion >> 8);
  frame[10] = static_cast<char>(purpose);
  version().copy(&frame[kVersionAt], kVersionSize);
  return frame;
}

void add_nonce(std::string& frame) { randombytes_buf(&frame[kNonceAt], kNonceSize); }

// A stranger's text goes to people's terminals.
bool plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '+';
}

int protocol_of(std::string_view hello) {
  return static_cast<unsigned char>(hello[8]) | static_cast<unsigned char>(hello[9]) << 8;
}

std::string version_of(std::string_view hello) {
  std::string_view text = hello.substr(kVersionAt, kVersionSize);
  text = text.substr(0, text.find('\0'));
  return std::string(!text.empty() && std::all_of(text.begin(), text.end(), plain) ? text : "?");
}

bool begins(std::string_view bytes, std::string_view magic) {
  size_t size = std::min(bytes.size(), magic.size());
  return bytes.substr(0, size) == magic.substr(0, size);
}

Key keyed(const Key& secret, std::string_view label, const StreamHeader* header) {
  std::array<unsigned char, 64> input;
  size_t size = label.copy(reinterpret_cast<char*>(input.data()), input.size());
  if (header != nullptr) size = std::copy(header->begin(), header->end(), &input[size]) - input.data();
  Key key;
  crypto_generichash(key.data(), key.size(), input.data(), size, secret.data(), secret.size());
  return key;
}

}  // namespace

Key::~Key() { sodium_memzero(data(), size()); }

std::shared_ptr<const KeyPair> KeyPair::make() {
  job::init_crypto();
  auto pair = std::make_shared<KeyPair>();
  crypto_kx_keypair(pair->public_key.data(), pair->secret_key.data());
  return pair;
}

// --- SecretStream -------------------------------------------------------------------------------------------------

SecretStream::~SecretStream() { sodium_memzero(&state_, sizeof state_); }

StreamHeader SecretStream::start_sealing(const Key& key) {
  StreamHeader header;
  crypto_secretstream_xchacha20poly1305_init_push(&state_, header.data(), key.data());
  return header;
}

void SecretStream::start_opening(const Key& key, const StreamHeader& header) {
  crypto_secretstream_xchacha20poly1305_init_pull(&state_, header.data(), key.data());
}

void SecretStream::seal(std::string_view message, std::string& frames) {
  size_t sealed = message.size() + kSealSize;
  size_t begin = frames.size();
  frames.resize(begin + kLengthSize + sealed);
  for (size_t i = 0; i < kLengthSize; ++i) frames[begin + i] = static_cast<char>(sealed >> (8 * i));
  crypto_secretstream_xchacha20poly1305_push(&state_, reinterpret_cast<unsigned char*>(&frames[begin + kLengthSize]),
                                             nullptr, bytes_of(message), message.size(), nullptr, 0, 0);
}

std::optional<std::string_view> SecretStream::open(char* sealed, size_t size) {
  // Authenticated first, then decrypted byte by byte in place: the message lies one byte (the tag) into the frame.
  unsigned long long message_size = 0;
  unsigned char tag = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(sealed);
  if (crypto_secretstream_xchacha20poly1305_pull(&state_, bytes + 1, &message_size, &tag, bytes, size, nullptr, 0) != 0)
    return std::nullopt;
  return std::string_view(sealed + 1, message_size);
}

// --- Handshake ----------------------------------------------------------------------------------------------------

std::string Handshake::call() {
  job::init_crypto();
  hello_ = head(kClientMagic, static_cast<uint8_t>(purpose_));
  if (exchanges_keys()) {
    keys_ = KeyPair::make();
    text_of(keys_->public_key).copy(&hello_[kNonceAt], kPublicKeySize);
  } else {
    add_nonce(hello_);
  }
  return hello_;
}

Verdict Handshake::answered(std::string_view server_hello, SecretStream& out, std::string& proof) {
  if (!begins_server_hello(server_hello)) return Verdict::kNotMuster;
  if (!read_peer(server_hello)) return Verdict::kOtherVersion;
  agree(hello_, server_hello);
  const Key to_prove = secret_;
  std::memcpy(peer_key_.data(), server_hello.data() + kHeadSize, kPublicKeySize);
  if (!exchange_keys(false)) return Verdict::kNotMuster;
  StreamHeader ours = out.start_sealing(derive(kClientKey));
  proof = text_of(ours);
  proof += text_of(keyed(to_prove, kClientProof, &ours));
  return Verdict::kGood;
}

void Handshake::enter(std::string_view entry_header, SecretStream& in) const {
  in.start_opening(derive(kServerKey), header_at(entry_header, 0));
}

Verdict Handshake::called(std::string_view client_hello, std::string& answer) {
  job::init_crypto();
  if (!begins_client_hello(client_hello)) return Verdict::kNotMuster;
  answer = head(kServerMagic, 0);
  if (!read_peer(client_hello)) {
    answer.resize(kRefusalSize);
    return Verdict::kOtherVersion;
  }
  auto purpose = static_cast<uint8_t>(client_hello[10]);
  if (purpose < static_cast<uint8_t>(Purpose::kControl) || purpose > static_cast<uint8_t>(Purpose::kSealedToken))
    return Verdict::kNotMuster;
  purpose_ = static_cast<Purpose>(purpose);
  if (purpose_ == Purpose::kSealedToken) return Verdict::kAsksToken;
  add_nonce(answer);
  answer.resize(kServerHelloSize);
  if (exchanges_keys()) {
    if (!keys_) keys_ = KeyPair::make();
    text_of(keys_->public_key).copy(&answer[kHeadSize], kPublicKeySize);
    std::memcpy(peer_key_.data(), client_hello.data() + kNonceAt, kPublicKeySize);
  }
  agree(client_hello, answer);
  return Verdict::kGood;
}

Verdict Handshake::proven(std::string_view proof, SecretStream& in, SecretStream& out, std::string& entry_header) {
  StreamHeader theirs = header_at(proof, 0);
  if (!proves(proof, kHeaderSize, derive(kClientProof, &theirs))) return Verdict::kWrongToken;
  if (!exchange_keys(true)) return Verdict::kNotMuster;
  in.start_opening(derive(kClientKey), theirs);
  entry_header = text_of(out.start_sealing(derive(kServerKey)));
  return Verdict::kGood;
}

bool Handshake::begins_client_hello(std::string_view bytes) { return begins(bytes, kClientMagic); }
bool Handshake::begins_server_hello(std::string_view bytes) { return begins(bytes, kServerMagic); }

// The secret of this connection's proof: the holders of the token that have seen both hellos have it.
void Handshake::agree(std::string_view client_hello, std::string_view server_hello) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, token_.data(), job::Token::kSize, secret_.size());
  crypto_generichash_update(&state, bytes_of(kSessionLabel), kSessionLabel.size());
  crypto_generichash_update(&state, bytes_of(client_hello), client_hello.size());
  crypto_generichash_update(&state, bytes_of(server_hello), server_hello.size());
  crypto_generichash_final(&state, secret_.data(), secret_.size());
  sodium_memzero(&state, sizeof state);
}

// Adds what the two sides' ephemeral keys make. False: the peer's key is none.
bool Handshake::exchange_keys(bool server) {
  if (!exchanges_keys()) return true;
  struct Shared {
    Key up, down;  // what crypto_kx has for each direction; here both are hashed together
  } shared;
  const unsigned char *own = keys_->public_key.data(), *secret = keys_->secret_key.data(), *peer = peer_key_.data();
  const int failed = server ? crypto_kx_server_session_keys(shared.up.data(), shared.down.data(), own, secret, peer)
                            : crypto_kx_client_session_keys(shared.down.data(), shared.up.data(), own, secret, peer);
  if (failed != 0) return false;
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret_.data(), secret_.size(), secret_.size());
  crypto_generichash_update(&state, bytes_of(kExchangeLabel), kExchangeLabel.size());
  crypto_generichash_update(&state, shared.up.data(), shared.up.size());
  crypto_generichash_update(&state, shared.down.data(), shared.down.size());
  crypto_generichash_final(&state, secret_.data(), secret_.size());
  sodium_memzero(&state, sizeof state);
  keys_.reset();
  return true;
}

Key Handshake::derive(std::string_view label, const StreamHeader* header) const {
  return keyed(secret_, label, header);
}

// False: another version. Nodes agree on more than this protocol (descriptions, reports, what options mean), so the same
// number is not enough.
bool Handshake::read_peer(std::string_view hello) {
  peer_protocol_ = protocol_of(hello);
  peer_version_ = version_of(hello);
  return peer_protocol_ == kProtocolVersion && peer_version_ == version().substr(0, kVersionSize);
}

// --- The sealed token ---------------------------------------------------------------------------------------------

std::string sealed_answer(std::string_view credential) {
  std::string answer = head(kServerMagic, 0);
  for (size_t i = 0; i < kLengthSize; ++i) answer += static_cast<char>(credential.size() >> (8 * i));
  answer += credential;
  return answer;
}

Result<std::optional<std::string>> read_sealed_answer(std::string_view bytes) {
  if (!begins(bytes, kServerMagic)) return Error{ErrorKind::kSystem, "does not speak muster's protocol", {}};
  if (bytes.size() < kHeadSize) return std::optional<std::string>();
  if (protocol_of(bytes) != kProtocolVersion)
    return Error{ErrorKind::kPeer,
                 fmt::format("speaks muster {} (protocol {}), this is muster {} (protocol {})", version_of(bytes),
                             protocol_of(bytes), version(), kProtocolVersion),
                 "use the same muster on every node"};
  bytes.remove_prefix(kHeadSize);
  if (bytes.size() < kLengthSize) return std::optional<std::string>();
  size_t size = 0;
  for (size_t i = 0; i < kLengthSize; ++i) size |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(kLengthSize);
  if (size > kLongestCredential || bytes.size() > size)
    return Error{ErrorKind::kPeer, "what was sent as the job's token is too long", {}};
  if (bytes.size() < size) return std::optional<std::string>();
  return std::optional<std::string>(bytes);
}

}  // namespace muster::rendezvous
