#include "muster/agent/lease_keeper.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"

namespace muster::agent {
namespace {

using rendezvous::Channel;

// A coordinator's end of the heartbeat connection, on the loop of the test.
class Coordinator {
 public:
  explicit Coordinator(net::EventLoop& loop) : loop_(loop) {
    auto listener = net::listen_tcp({});
    EXPECT_TRUE(listener);
    listener_ = *std::move(listener);
    options_.token = job::Token::random();
  }

  WardenLink::Terms terms(Duration lease) const {
    WardenLink::Terms terms;
    terms.node = 1;
    terms.lease = lease;
    terms.coordinator = *net::parse_address("127.0.0.1", listener_.port);
    terms.since = Clock::now();
    return terms;
  }
  const job::Token& token() const { return options_.token; }

  bool accept(std::function<void(const rendezvous::Message&)> received) {
    net::Address peer;
    auto socket = net::accept_tcp(listener_.fd.get(), &peer);
    if (!socket || !*socket) return false;
    Channel::Handlers handlers;
    handlers.received = [received = std::move(received)](std::string_view bytes) {
      auto message = rendezvous::decode(bytes);
      if (message) received(*message);
    };
    handlers.closed = [](const Error& why) { ADD_FAILURE() << why.message; };
    channel_ = Channel::server(loop_, *std::move(socket), peer, options_, handlers);
    return true;
  }
  void echo(const rendezvous::Beat& beat, bool stands) {
    channel_->send(rendezvous::encode(
        rendezvous::Echo{.sequence = beat.sequence, .sent = beat.sent, .coordinator = beat.sent, .stands = stands}));
  }

 private:
  net::EventLoop& loop_;
  net::Listener listener_;
  Channel::Options options_;
  std::unique_ptr<Channel> channel_;
};

LeaseKeeper::Handlers nothing_happens() {
  return {.stop_workers = [] { ADD_FAILURE() << "stopped"; },
          .continue_workers = [] { ADD_FAILURE() << "continued"; },
          .expired = [](const std::string& why) { ADD_FAILURE() << why; }};
}

// A handshake over a slow network takes longer than the time between two beats; begun anew each beat it never ends.
TEST(LeaseKeeper, WaitsForAConnectionThatTakesLongerThanABeat) {
  net::EventLoop loop;
  Coordinator coordinator(loop);
  WardenLink link;
  link.set_terms(coordinator.terms(std::chrono::seconds(10)));
  LeaseKeeper keeper(loop, coordinator.token(), link, nothing_happens());

  loop.run_until(Deadline::in(3 * rendezvous::kBeatPeriod));  // the kernel has connected it, and nobody answers
  ASSERT_TRUE(coordinator.accept([&](const rendezvous::Message& message) {
    EXPECT_TRUE(std::holds_alternative<rendezvous::Beat>(message));
    loop.stop();
  }));
  EXPECT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(10)))) << "the first connection is the one that counts";
  EXPECT_FALSE(coordinator.accept([](const rendezvous::Message&) {})) << "and the only one";
}

// --- a keeper that is connected

class ConnectedKeeper : public ::testing::Test {
 protected:
  void connect(Duration lease, LeaseKeeper::Handlers handlers) {
    link_.set_terms(coordinator_.terms(lease));
    keeper_.emplace(loop_, coordinator_.token(), link_, std::move(handlers));
    while (!coordinator_.accept([this](const rendezvous::Message& message) { received(message); }))
      loop_.run_until(Deadline::in(std::chrono::milliseconds(1)));
    ASSERT_TRUE(loop_.run_until(Deadline::in(kPatience))) << "no beat";
  }
  void received(const rendezvous::Message& message) {
    if (const auto* beat = std::get_if<rendezvous::Beat>(&message)) {
      if (answers_) coordinator_.echo(*beat, true);
      loop_.stop();
    } else if (const auto* goodbye = std::get_if<rendezvous::Goodbye>(&message)) {
      goodbye_from_ = goodbye->node;
      loop_.stop();
    }
  }

  static constexpr auto kPatience = std::chrono::seconds(20);
  net::EventLoop loop_;
  Coordinator coordinator_{loop_};
  WardenLink link_;
  std::optional<LeaseKeeper> keeper_;
  bool answers_ = true;
  std::optional<rendezvous::NodeId> goodbye_from_;
};

TEST_F(ConnectedKeeper, SaysGoodbye) {
  connect(std::chrono::seconds(20), nothing_happens());
  // The channel of the keeper opens with the answer to its first beat.
  while (link_.lease_until() <= link_.terms()->since + std::chrono::seconds(20))
    loop_.run_until(Deadline::in(std::chrono::milliseconds(1)));
  keeper_->say_goodbye(Deadline::in(kPatience));
  while (!goodbye_from_ && loop_.run_until(Deadline::in(kPatience))) {
  }
  EXPECT_EQ(goodbye_from_, 1U);
}

// The coordinator may be gone while a slow reader still takes the last output, and the agent's loop may wait for a file
// system for longer than a short lease.
TEST_F(ConnectedKeeper, KeepsNoLeaseThatTheAgentHasEnded) {
  constexpr auto kLease = std::chrono::seconds(1);
  connect(kLease, nothing_happens());
  answers_ = false;
  link_.end_lease();
  EXPECT_EQ(link_.lease_until(), TimePoint::max());
  for (const Deadline end = Deadline::in(2 * kLease); !end.passed();)
    loop_.run_until(Deadline::in(std::chrono::milliseconds(50)));
}

// The pause was shorter than the lease, so nothing was stopped; but the agent, which stood still too, goes on later.
TEST_F(ConnectedKeeper, GivesTheAgentTimeAfterAPauseOfItsOwn) {
  constexpr auto kLease = std::chrono::seconds(4);
  connect(kLease, nothing_happens());
  link_.pulse(Clock::now());
  ::poll(nullptr, 0, 2500);
  for (const Deadline end = Deadline::in(kLease / 2); !end.passed();)
    loop_.run_until(Deadline::in(std::chrono::milliseconds(50)));
}

// The node was frozen for longer than its lease: the workers are stopped, and go on when the coordinator has answered.
TEST_F(ConnectedKeeper, AsksWhenItWakesUpAfterTheEndOfItsLease) {
  std::vector<std::string> done;
  connect(std::chrono::seconds(2), {.stop_workers = [&] { done.emplace_back("stop"); },
                                    .continue_workers = [&] { done.emplace_back("continue"); },
                                    .expired = [&](const std::string& why) { done.push_back(why); }});
  ::poll(nullptr, 0, 2800);  // as if this process stood still
  answers_ = false;
  keeper_->look();
  EXPECT_EQ(done, std::vector<std::string>{"stop"});
  EXPECT_LT(link_.lease_until(), Clock::now()) << "a pause does not lengthen a lease";
  answers_ = true;
  for (Deadline deadline = Deadline::in(kPatience); done.size() < 2 && !deadline.passed();) loop_.run_until(deadline);
  EXPECT_EQ(done, (std::vector<std::string>{"stop", "continue"}));
  EXPECT_GT(link_.lease_until(), Clock::now());
}

}  // namespace
}  // namespace muster::agent
