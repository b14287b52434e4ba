#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/fd.h"
#include "muster/base/result.h"
#include "muster/job/token.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"

namespace muster::rendezvous {

struct KeyPair;

// What a connection is for; told in the handshake.
enum class Purpose : uint8_t {
  kControl = 1,      // messages of protocol.h
  kHeartbeat = 2,    // Beat and Echo of protocol.h, from a warden
  kOutput = 3,       // Chunk of protocol.h, from an agent to the launcher
  kStatus = 4,       // one question, one answer: `muster status`
  kDescription = 5,  // a host's name, answered with what its agent is to do (CoordinatorClient::describe)
  kSealedToken = 6,  // from somebody who has no token: no proofs, one answer, see below
};

// The first byte of every control connection. No query code of PyTorch's store has it, so both can share a port.
inline constexpr unsigned char kFirstByte = 0xD7;

// Raised by whatever changes a frame or a message: peers with another number refuse each other, naming both programs'
// versions.
inline constexpr uint16_t kProtocolVersion = 5;

// An encrypted, authenticated connection between two holders of the same token: messages in, messages out, in order.
//
//   client                                                  server
//   hello: magic, protocol, purpose, version, public key ──▶
//                                   ◀── hello: magic, protocol, version, nonce, public key
//   proof (keyed hash of both hellos, under the token);
//   sealed: its job's name; messages ──▶
//                                   ◀── sealed: an empty message: you are in; messages
//   both: secretstream (libsodium) each way; a frame is a 32-bit length and its bytes. The keys come from the token, both
//   hellos and the exchange of the two public keys (X25519), which are thrown away: see Handshake
//
// The client proves first: a stranger that connects learns nothing that a guessed token could be checked against. The
// server's proof is that it can seal. The name of the job (Token::job()) keeps two jobs of one user with the same port,
// id and key apart: in place of the empty message a node of another job gets the name of the server's job.
//
// All frames up to the proof have a fixed size and nothing else is looked at before them. Refusals that are not sealed,
// and so may come from anybody: another protocol version is a frame of kRefusalSize in place of the server's hello, a
// wrong token a length of 0 in place of the empty message. A server under pressure may close before it has let a client
// in: the client is not open before it knows, and may try again.
//
// A client that asks with kSealedToken is answered, and closed, without any of this: the first 64 bytes of a server
// hello, then a 32-bit length and so many bytes of a credential that only this user can open (munge.h); none: length 0.
//
// Lives on one loop and its thread. Never blocks. Handlers may destroy the channel they are called by.
class Channel {
 public:
  struct Options {
    job::Token token;
    Purpose purpose = Purpose::kControl;
    std::shared_ptr<const std::string> sealed_token;        // a server's, for every client that asks; may be none
    std::shared_ptr<const KeyPair> keys;                    // a server's, for several connections; none: one of its own
    Duration handshake_timeout = std::chrono::seconds(10);  // 0: none
    size_t max_message = 1 << 20;                           // what comes; longer is a broken protocol
    size_t max_unsent = 256 << 20;                          // the peer does not read: closed with an error
    // A client's first message. It is asked for when the server's hello has come, and goes with our proof, sealed: only
    // a holder of the token can read it. The server may act upon it in a connection that never opened here.
    std::function<std::string()> greeting;
  };
  struct Handlers {
    std::function<void()> opened;                            // the handshake is done, the peer holds the token
    std::function<void(std::string_view message)> received;  // empty: as if paused
    // Once, for whatever reason; not after the destructor. kPeer: the other side knows. The message says why in words
    // for people: "closed by 10.0.0.2:4711", "10.0.0.2 speaks muster 0.2 (protocol 2), this is muster 0.1
    // (protocol 1)".
    std::function<void(const Error& why)> closed;
    std::function<void()> drained;  // unsent() is 0 again; may be empty
  };

  // The side that connected; `socket` is connected and non-blocking.
  static std::unique_ptr<Channel> client(net::EventLoop& loop, Fd socket, const net::Address& peer,
                                         const Options& options, Handlers handlers);
  // The side that accepted; the purpose comes with the hello. `first_bytes`: what somebody has read already.
  static std::unique_ptr<Channel> server(net::EventLoop& loop, Fd socket, const net::Address& peer,
                                         const Options& options, Handlers handlers, std::string_view first_bytes = {});
  virtual ~Channel() = default;  // closes; what is unsent is lost

  // Goes out at once where it can; before `opened`, or in it, with the handshake. Calls no handler: a failure is told
  // later.
  virtual void send(std::string_view message) = 0;
  virtual size_t unsent() const = 0;  // bytes
  virtual Purpose purpose() const = 0;
  virtual bool is_open() const = 0;  // handshake done, not closed
  // closed() was called because the peer closed an open connection between two messages: neither a reset nor an error,
  // which may come from anything on the way.
  virtual bool ended_orderly() const = 0;
  virtual const net::Address& peer() const = 0;         // as this side sees it
  virtual const net::Address& local() const = 0;        // the address the peer reached us at, or we left from
  virtual const std::string& peer_version() const = 0;  // "0.1.0", once open
  // Another descriptor of its socket, which outlives the channel: it hangs up when the peer does. Invalid: there is
  // none.
  virtual Fd share_socket() const = 0;
  // What the peer's machine has not acknowledged for so long ends the connection (TCP_USER_TIMEOUT).
  virtual void limit_silence(Duration longest) = 0;
  // Do not read for now: what the peer sends waits in its socket, and so does its end.
  virtual void pause(bool paused) = 0;
  // To another thread's loop, once open: takes the channel out of this one. Call from this loop's thread; then
  // resume_on() from the other's.
  virtual void detach() = 0;
  // Replaces the handlers; also without detach(), on the same loop. What came meanwhile is handed to the new ones, from
  // the loop.
  virtual void resume_on(net::EventLoop& loop, Handlers handlers) = 0;
};

// Connects without blocking, then Channel::client(). Tries the addresses in turn, each for `each` at most, and again
// from the first, until the deadline. A server that has been greeted (Options::greeting) is not left for five times
// `each`, nor later if there is no other address, unless it closes. Resolves nothing: Finder does.
class Connector {
 public:
  // `done` gets the open channel, whose handlers are then set with resume_on(), or why there is none: kTimeout with the
  // last failure of each address, the most telling first, or at once, if every address has refused us (a wrong token,
  // another job, another version), the last refusal. One refusal is not enough: anybody may have sent it. Called once,
  // from the loop; may destroy the connector.
  static std::unique_ptr<Connector> start(net::EventLoop& loop, std::vector<net::Address> addresses,
                                          Channel::Options options, Duration each, Deadline deadline,
                                          std::function<void(Result<std::unique_ptr<Channel>>)> done);
  virtual ~Connector() = default;  // gives up
  // Of the last failures of all addresses the most telling one, else the first address's: who refused our token was at
  // least there. "10.0.0.1:29400: connection refused"; empty: none so far.
  virtual std::string telling_failure() const = 0;

  // Why an endpoint has no address that could be tried.
  struct Hindrance {
    std::string endpoint;  // "n1:29400"
    std::string why;       // "cannot resolve 'n1': Name or service not known"
  };
  // Other addresses from now on, from the first; where they are the same ones nothing is disturbed. With none it waits
  // for some until the deadline. Ignored while a server that has been greeted is not left: call it again later.
  virtual void aim_at(std::vector<net::Address> addresses, std::vector<Hindrance> hindrances) = 0;
};

}  // namespace muster::rendezvous
