#include "muster/output/receiver.h"

#include <gtest/gtest.h>

#include <list>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/output/test/output_harness.h"
#include "muster/rendezvous/acceptor.h"

namespace muster::output {
namespace {

using rendezvous::Channel;
using rendezvous::Chunk;
using rendezvous::OutputHello;
using rendezvous::OutputTaken;

// An agent's side of a connection, which says what a test wants to hear the answer to.
struct Sender {
  std::unique_ptr<rendezvous::Connector> connector;
  std::unique_ptr<Channel> channel;
  std::vector<uint64_t> told;  // chunks that were acknowledged
  bool closed = false;

  void say(const rendezvous::Message& message) const { channel->send(rendezvous::encode(message)); }
  bool was_told(uint64_t chunks) const { return !told.empty() && told.back() == chunks; }
};

class ReceiverTest : public ::testing::Test {
 protected:
  ReceiverTest() {
    auto listener = net::listen_tcp({});
    EXPECT_TRUE(listener);
    address_ = *net::parse_address("127.0.0.1", listener->port);
    acceptor_.listen(std::move(listener->fd));
    receiver_.expect(kNode, "n0");
  }

  static rendezvous::AcceptorOptions options(const job::Token& token) {
    rendezvous::AcceptorOptions options;
    options.token = token;
    return options;
  }

  Sender& connect() {
    Sender& sender = senders_.emplace_back();
    Channel::Options options;
    options.token = token_;
    options.purpose = rendezvous::Purpose::kOutput;
    auto hears = [&sender](std::string_view bytes) {
      sender.told.push_back(std::get<OutputTaken>(*rendezvous::decode(bytes)).chunks);
    };
    sender.connector = rendezvous::Connector::start(
        loop_, {address_}, options, kSoon, Deadline::in(kSoon),
        [this, &sender, hears](Result<std::unique_ptr<Channel>> channel) {
          ASSERT_TRUE(channel);
          sender.channel = *std::move(channel);
          sender.channel->resume_on(loop_, {.opened = {},
                                            .received = hears,
                                            .closed = [&sender](const Error&) { sender.closed = true; },
                                            .drained = {}});
        });
    EXPECT_TRUE(until([&] { return sender.channel != nullptr; }));
    return sender;
  }

  bool until(const std::function<bool()>& met) { return testing::run_until(loop_, met); }

  static constexpr rendezvous::NodeId kNode = 7;
  static constexpr auto kSoon = std::chrono::seconds(10);
  net::EventLoop loop_;
  Log log_ = Log::to_stderr();
  job::Token token_ = job::Token::random();
  net::Address address_;
  std::vector<std::string> came_;
  bool has_room_ = true;
  Receiver receiver_{loop_,
                     [this](const std::string& host, const Chunk& chunk) {
                       came_.push_back(host + ": " + chunk.bytes);
                       return has_room_;
                     },
                     [] {}};
  rendezvous::Acceptor acceptor_{
      loop_, log_, options(token_),
      rendezvous::Acceptor::Handlers{
          .joined = [this](std::unique_ptr<Channel> channel) { receiver_.accept(std::move(channel)); },
          .other = {},
          .refused = {}}};
  std::list<Sender> senders_;
};

TEST_F(ReceiverTest, TakesNothingFromNodesThatAreNotExpected) {
  Sender& liar = connect();
  liar.say(OutputHello{.node = 77});
  EXPECT_TRUE(until([&] { return liar.closed; }));
  Sender& other = connect();
  other.say(Chunk{.stream = 0, .bytes = "forged"});
  EXPECT_TRUE(until([&] { return other.closed; }));
  EXPECT_TRUE(came_.empty());
  EXPECT_EQ(receiver_.connections(), 0u);
}

TEST_F(ReceiverTest, AcknowledgesAcrossConnections) {
  Sender& first = connect();
  first.say(OutputHello{kNode});
  ASSERT_TRUE(until([&] { return first.was_told(0); }));
  first.say(Chunk{0, "one\n"});
  first.say(Chunk{Chunk::kLiveLine, "50 %"});  // is not counted
  first.say(Chunk{1, "two\n"});
  ASSERT_TRUE(until([&] { return first.was_told(2); }));
  first.channel.reset();
  Sender& second = connect();
  second.say(OutputHello{kNode});
  ASSERT_TRUE(until([&] { return second.was_told(2); }));
  ASSERT_EQ(receiver_.unfinished().size(), 1u);
  EXPECT_EQ(receiver_.unfinished().front().bytes, 8u);
  second.say(Chunk{Chunk::kEnd, {}});
  ASSERT_TRUE(until([&] { return second.was_told(3); }));
  EXPECT_TRUE(receiver_.unfinished().empty());
}

TEST_F(ReceiverTest, WithoutRoomNothingIsAcknowledgedButTheConnectionLives) {
  Sender& sender = connect();
  sender.say(OutputHello{kNode});
  has_room_ = false;
  sender.say(Chunk{0, "one\n"});
  ASSERT_TRUE(until([&] { return sender.told.size() >= 3; })) << "the last count is told again and again";
  EXPECT_TRUE(sender.was_told(0));
  EXPECT_EQ(came_, std::vector<std::string>{"n0: one\n"});
  has_room_ = true;
  receiver_.room();
  EXPECT_TRUE(until([&] { return sender.was_told(1); }));
}

TEST_F(ReceiverTest, WithoutRoomANewConnectionBringsNoChunkTwice) {
  Sender& first = connect();
  first.say(OutputHello{kNode});
  has_room_ = false;
  first.say(Chunk{0, "one\n"});
  ASSERT_TRUE(until([&] { return !came_.empty(); }));
  first.channel.reset();
  Sender& second = connect();
  second.say(OutputHello{kNode});
  EXPECT_TRUE(until([&] { return second.was_told(1); })) << "the agent sends what follows, not the first chunk again";
}

TEST_F(ReceiverTest, TheEndOfALostNodesOutputIsNotAwaited) {
  Sender& sender = connect();
  sender.say(OutputHello{kNode});
  ASSERT_TRUE(until([&] { return sender.was_told(0); }));
  receiver_.lost(kNode, false);
  EXPECT_TRUE(receiver_.unfinished().empty());
  sender.say(Chunk{0, "its last line\n"});
  EXPECT_TRUE(until([&] { return !came_.empty(); })) << "what it still sends is taken";
  EXPECT_EQ(receiver_.connections(), 1u);
  sender.channel.reset();
  EXPECT_TRUE(until([&] { return receiver_.connections() == 0; }));
}

TEST_F(ReceiverTest, TheConnectionOfASilentNodeIsClosed) {
  Sender& sender = connect();
  sender.say(OutputHello{kNode});
  ASSERT_TRUE(until([&] { return sender.was_told(0); }));
  receiver_.lost(kNode, true);
  EXPECT_TRUE(until([&] { return sender.closed; }));
}

}  // namespace
}  // namespace muster::output
