#include "muster/agent/lease_keeper.h"

#include <gtest/gtest.h>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"

namespace muster::agent {
namespace {

using rendezvous::Channel;

// A handshake over a slow network takes longer than the time between two beats; begun anew each beat it never ends.
TEST(LeaseKeeper, WaitsForAConnectionThatTakesLongerThanABeat) {
  net::EventLoop loop;
  auto listener = net::listen_tcp({});
  ASSERT_TRUE(listener);
  WardenLink link;
  WardenLink::Terms terms;
  terms.node = 1;
  terms.lease = std::chrono::seconds(10);
  terms.coordinator = *net::parse_address("127.0.0.1", listener->port);
  terms.since = Clock::now();
  link.set_terms(terms);
  Channel::Options options;
  options.token = rendezvous::Token::random();
  LeaseKeeper keeper(loop, options.token, link,
                     {.stop_workers = [] {},
                      .continue_workers = [] {},
                      .expired = [](const std::string& why) { ADD_FAILURE() << why; }});

  loop.run_until(Deadline::in(3 * rendezvous::kBeatPeriod));  // the kernel has connected it, and nobody answers
  net::Address peer;
  auto socket = net::accept_tcp(listener->fd.get(), &peer);
  ASSERT_TRUE(socket && *socket);
  std::unique_ptr<Channel> channel;
  Channel::Handlers handlers;
  handlers.received = [&](std::string_view bytes) {
    auto beat = rendezvous::decode(bytes);
    EXPECT_TRUE(beat && std::holds_alternative<rendezvous::Beat>(*beat));
    loop.stop();
  };
  handlers.closed = [](const Error& why) { ADD_FAILURE() << why.message; };
  channel = Channel::server(loop, *std::move(socket), peer, options, handlers);
  EXPECT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(10)))) << "the first connection is the one that counts";
  auto second = net::accept_tcp(listener->fd.get(), &peer);
  EXPECT_TRUE(second && !*second) << "and the only one";
}

}  // namespace
}  // namespace muster::agent
