#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "muster/base/log.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"

namespace muster::rendezvous {

struct AcceptorOptions {
  job::Token token;
  std::shared_ptr<const std::string> sealed_token;  // for whoever asks
  size_t max_message = Channel::Options().max_message;
  size_t max_strangers = 256;     // connections that have not proven themselves; beyond, the oldest goes
  size_t kept_for_expected = 64;  // of these, for addresses that expect() named
  Duration stranger_time = std::chrono::seconds(2);
  // A newer one waits in the listener's queue while all who are inside came so recently: nodes that start together must
  // not throw each other out. One that has sent a proper hello has longer, for its proof; less and less while such ones
  // do not prove themselves.
  Duration silent_time = std::chrono::milliseconds(10);
  Duration hello_time = std::chrono::milliseconds(500);
  // Between two refusals of one host that are told; of the same thing, which a node that tries on says again and again.
  Duration refusal_pause = std::chrono::seconds(1);
  Duration same_refusal_pause = std::chrono::minutes(1);
  // Of all hosts together; further ones are counted, and their number is logged at the end of the window or of the job.
  int most_refusals = 20;
  Duration refusal_window = std::chrono::minutes(1);
  // How long one pair of ephemeral keys serves new connections before it is wiped. Making a pair costs as much as the
  // key exchange itself, and 10,000 nodes come within a second. A process whose memory is stolen gives away what was
  // recorded of connections of this time, and nothing before it.
  Duration key_time = std::chrono::minutes(1);
};

// The coordinator's door: accepts, lets in who proves the token within two seconds, and hands everything that does not
// begin with kFirstByte to whoever serves the store on the same port. Strangers cost one descriptor and a few hundred
// bytes each, are closed without a word to them, and are counted; the log has the first.
class Acceptor {
 public:
  struct Handlers {
    std::function<void(std::unique_ptr<Channel>)> joined;  // open; set its handlers with Channel::resume_on()
    // A connection that speaks something else; empty: closed.
    std::function<void(Fd socket, const net::Address& peer, std::string_view first_bytes)> other;
    // A peer with muster's hello that is of another job or another version, or has a wrong token; or one that speaks
    // torchrun's protocol (refuse_other()). See refusal_pause and most_refusals.
    std::function<void(const net::Address& peer, const Error& why)> refused;
  };
  Acceptor(net::EventLoop& loop, Log& log, AcceptorOptions options, Handlers handlers);
  ~Acceptor();

  // Takes over a listening socket (net::listen_tcp).
  void listen(Fd listener);
  void expect(const net::Address& peer);  // slots are kept for it
  // For Handlers::other: a connection that speaks something else, and that has no taker. Told if it is torchrun's.
  void refuse_other(const net::Address& peer, std::string_view first_bytes);
  // Logs how many refusals most_refusals has kept back so far, without waiting for the end of the window.
  void tell_rest();
  uint64_t strangers_dropped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
