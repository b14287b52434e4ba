#include "muster/rendezvous/coordinator.h"

#include <gtest/gtest.h>

#include <csignal>
#include <list>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/test/channel_pair.h"
#include "muster/rendezvous/torch_probe.h"
#include "muster/rendezvous/words.h"

namespace muster::rendezvous {
namespace {

using test::run_until;

// What the coordinator told whoever runs it, a line each.
struct Client final : CoordinatorClient {
  std::vector<std::string> lines;
  bool has(const std::string& line) const { return std::find(lines.begin(), lines.end(), line) != lines.end(); }

  void joined(const Node& node) override { lines.push_back("joined " + node.join.host); }
  void gone(const Node& node, const Loss& loss) override {
    lines.push_back(fmt::format("gone {}: {}", node.join.host, cause_text(loss)));
  }
  void changed(const State& /*state*/, const Decision& /*decision*/) override {}
  void round_started(const State& state) override { lines.push_back(fmt::format("started {}", state.round)); }
  void refused(const std::string& who, const std::string& why) override {
    lines.push_back(fmt::format("refused {}: {}", who, why));
  }
  void worker_failed(const Node& /*node*/, const WorkerFailed& /*failed*/) override {}
  Failure judge(int /*round*/, const std::vector<NodeOutcomes>& outcomes) override {
    Failure failure;
    failure.text = outcomes.empty() ? "nobody" : outcomes.front().host + ": " + outcomes.front().start_error;
    failure.exit_code = 7;
    return failure;
  }
  std::string ended(const Decision& decision, const std::vector<NodeOutcomes>& /*outcomes*/) override {
    lines.push_back("ended " + decision.reason);
    return "the text";
  }
};

// Somebody with the token who says what a test wants to hear the answer to.
struct Guest {
  std::unique_ptr<Connector> connector;
  std::unique_ptr<Channel> channel;
  std::vector<Message> told;
  bool closed = false;
  bool answers = true;  // Pings
  int pings = 0;

  void hears(const Ping& ping) {
    ++pings;
    if (answers) say(Pong{ping.sequence});
  }
  template <typename M>
  const M* last() const {
    return told.empty() ? nullptr : std::get_if<M>(&told.back());
  }
  void say(const Message& message) const { channel->send(encode(message)); }
};

class CoordinatorTest : public ::testing::Test {
 protected:
  void make(int min, int max, int spares = 0, Duration lease = std::chrono::seconds(10)) {
    CoordinatorOptions options;
    options.membership.lease = lease;
    options.token = token_;
    options.membership.min_nodes = min;
    options.membership.max_nodes = max;
    options.membership.expected = max + spares;
    coordinator_.emplace(loop_, log_, options, client_);
    auto listener = net::listen_tcp({});
    ASSERT_TRUE(listener);
    address_ = *net::parse_address("127.0.0.1", listener->port);
    coordinator_->listen(std::move(listener->fd));
  }
  Guest& connect(Purpose purpose = Purpose::kControl) {
    Guest& guest = guests_.emplace_back();
    Channel::Options options;
    options.token = token_;
    options.purpose = purpose;
    guest.connector =
        Connector::start(loop_, {address_}, options, std::chrono::seconds(5), Deadline::in(std::chrono::seconds(5)),
                         [this, &guest](Result<std::unique_ptr<Channel>> channel) {
                           ASSERT_TRUE(channel);
                           guest.channel = *std::move(channel);
                           Channel::Handlers handlers;
                           handlers.received = [&guest](std::string_view bytes) {
                             Message message = *decode(bytes);
                             if (const auto* ping = std::get_if<Ping>(&message)) return guest.hears(*ping);
                             guest.told.push_back(std::move(message));
                           };
                           handlers.closed = [&guest](const Error&) { guest.closed = true; };
                           guest.channel->resume_on(loop_, std::move(handlers));
                         });
    EXPECT_TRUE(until([&] { return guest.channel != nullptr; }));
    return guest;
  }
  Guest& join(int position, const std::string& host) {
    Guest& guest = connect();
    Join join;
    join.host = host;
    join.position = position;
    guest.say(join);
    EXPECT_TRUE(until([&] { return !guest.told.empty(); }));
    return guest;
  }
  template <typename Condition>
  bool until(Condition condition) {
    return run_until(loop_, condition);
  }
  // What was said before has been heard, and answered if it is answered at all.
  void settle(const Guest& guest) {
    guest.say(StoreOpened{.round = 99, .port = 0, .error = {}});
    for (int turn = 0; turn < 20; ++turn) loop_.run_until(Deadline::in(std::chrono::milliseconds(1)));
  }

  net::EventLoop loop_;
  Log log_ = Log::to_stderr(LogLevel::kError);
  job::Token token_ = job::Token::random();
  Client client_;
  std::optional<Coordinator> coordinator_;
  net::Address address_;
  std::list<Guest> guests_;
};

TEST_F(CoordinatorTest, WordsOfOtherRoundsChangeNothing) {
  make(1, 1);
  Guest& node = join(0, "n0");
  ASSERT_TRUE(until([&] { return node.last<OpenStore>() != nullptr; }));
  node.say(StoreOpened{.round = 1, .port = 4711, .error = {}});
  node.say(StoreOpened{.round = 1, .port = 0, .error = "no port"});
  node.say(RoundEnded{.round = 5, .succeeded = false, .outcomes = {}, .start_error = "never begun"});
  settle(node);
  ASSERT_NE(node.last<OpenStore>(), nullptr);
  node.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return node.last<StartRound>() != nullptr; }));
  EXPECT_EQ(node.last<StartRound>()->round.master_port, 4711);
  node.say(WorkerFailed{.round = 3, .rank = 0, .what = "exit code 1"});
  node.say(RoundEnded{.round = 7, .succeeded = true, .outcomes = {}, .start_error = {}});
  settle(node);
  ASSERT_NE(node.last<StartRound>(), nullptr);
  node.say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  ASSERT_TRUE(until([&] { return node.last<EndJob>() != nullptr; }));
  EXPECT_EQ(node.last<EndJob>()->exit_code, 0);
}

TEST_F(CoordinatorTest, WhoSaysWhatIsNotForItIsAMemberNoMore) {
  make(1, 3);
  for (const Message& message : {Message(Welcome{.node = 1, .job = "x", .lease = {}, .address = {}}),
                                 Message(EndJob{.exit_code = 0, .text = {}}),
                                 Message(Beat{.node = 1, .sequence = 1, .sent = 1, .paused = false})}) {
    Guest& node = join(0, fmt::format("n{}", guests_.size()));
    node.say(message);
    EXPECT_TRUE(until([&] { return node.closed; }));
    EXPECT_TRUE(client_.has(fmt::format("gone n{}: it broke the protocol", guests_.size() - 1)));
  }
}

TEST_F(CoordinatorTest, NobodyIsAMemberWithoutAWord) {
  make(1, 1);
  Guest& rude = connect();
  rude.say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  EXPECT_TRUE(until([&] { return rude.closed; }));
  EXPECT_TRUE(client_.lines.empty());
}

TEST_F(CoordinatorTest, OutputGoesToItsServer) {
  make(1, 1);
  std::unique_ptr<Channel> served;
  coordinator_->serve_output([&](std::unique_ptr<Channel> channel) { served = std::move(channel); });
  connect(Purpose::kOutput);
  ASSERT_TRUE(until([&] { return served != nullptr; }));
  EXPECT_EQ(served->purpose(), Purpose::kOutput);
}

TEST_F(CoordinatorTest, APlaceIsTakenOnce) {
  make(2, 2);
  join(0, "n0");
  Guest& second = join(0, "n0");
  ASSERT_NE(second.last<Refuse>(), nullptr);
  EXPECT_EQ(second.last<Refuse>()->reason, "n0 has joined already");
  Guest& outside = join(1'000'000, "n9");
  ASSERT_NE(outside.last<Refuse>(), nullptr);
  EXPECT_EQ(outside.last<Refuse>()->reason, "n9 is not among the 2 hosts of this job");
  EXPECT_EQ(coordinator_->connected(), 1U);
}

TEST_F(CoordinatorTest, AStopWhileTheStoreOpens) {
  make(1, 1);
  Guest& node = join(0, "n0");
  ASSERT_TRUE(until([&] { return node.last<OpenStore>() != nullptr; }));
  coordinator_->stop(SIGTERM);
  ASSERT_TRUE(until([&] { return node.last<EndJob>() != nullptr; }));
  EXPECT_EQ(node.last<EndJob>()->exit_code, 128 + SIGTERM);
  node.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  settle(node);
  EXPECT_EQ(node.told.size(), 3U) << "Welcome, OpenStore, EndJob: nothing was started";
}

TEST_F(CoordinatorTest, ANodeThatWasSignalledIsNamed) {
  make(2, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  second.say(StopRequest{SIGTERM});
  ASSERT_TRUE(until([&] { return first.last<EndJob>() != nullptr; }));
  EXPECT_TRUE(client_.has("ended n1's muster received SIGTERM"));
}

TEST_F(CoordinatorTest, AStoreThatCannotOpenEndsTheJobAndNamesItsHost) {
  make(2, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 0, .error = "every port is taken"});
  ASSERT_TRUE(until([&] { return second.last<EndJob>() != nullptr; }));
  EXPECT_EQ(second.last<EndJob>()->exit_code, 7);
  EXPECT_TRUE(client_.has("ended n0: every port is taken; no restarts were asked for (--max-restarts)"));
}

TEST_F(CoordinatorTest, AMemberThatGoesWhileTheStoreOpensCostsARoundThatNobodySaw) {
  make(1, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.channel.reset();
  coordinator_->host_hopeless(0, {ErrorKind::kPeer, "switched off", {}});
  ASSERT_TRUE(until([&] { return second.last<OpenStore>() != nullptr; }));
  EXPECT_EQ(second.last<OpenStore>()->round, 1);
}

TEST_F(CoordinatorTest, AFailureIsNoMatterOfASpare) {
  make(1, 1, 1);
  Guest& first = join(0, "n0");
  Guest& spare = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 0, .error = "every port is taken"});
  ASSERT_TRUE(until([&] { return first.last<EndJob>() != nullptr && spare.last<EndJob>() != nullptr; }));
  EXPECT_EQ(first.last<EndJob>()->exit_code, 7);
  EXPECT_EQ(spare.last<EndJob>()->exit_code, 0);
  EXPECT_EQ(spare.last<EndJob>()->text, "the text");
}

TEST_F(CoordinatorTest, WhoComesWhenAllIsDoneIsToldSoAndNotRefused) {
  make(1, 1, 1);
  Guest& first = join(0, "n0");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return first.last<StartRound>() != nullptr; }));
  first.say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  ASSERT_TRUE(until([&] { return first.last<EndJob>() != nullptr; }));
  Guest& late = join(1, "n1");
  ASSERT_NE(late.last<EndJob>(), nullptr);
  EXPECT_EQ(late.last<EndJob>()->exit_code, 0);
  EXPECT_EQ(client_.lines.back(), "ended every worker on 1 node has ended with 0") << "nothing is said of it";
}

TEST_F(CoordinatorTest, WhoComesTooLateWhereItWasNeededEndsAsTheJobDid) {
  make(2, 2);
  coordinator_->host_hopeless(0, {ErrorKind::kPeer, "switched off", {}});
  ASSERT_TRUE(until([&] { return !client_.lines.empty(); }));
  Guest& late = join(1, "n1");
  ASSERT_NE(late.last<EndJob>(), nullptr);
  EXPECT_EQ(late.last<EndJob>()->exit_code, kMusterFailed);
}

TEST_F(CoordinatorTest, ASpareThatWasSignalledItselfEndsWithThat) {
  make(1, 1, 2);
  Guest& first = join(0, "n0");
  Guest& signalled = join(1, "n1");
  Guest& other = join(2, "n2");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  signalled.say(StopRequest{SIGTERM});
  ASSERT_TRUE(until([&] { return signalled.last<EndJob>() != nullptr && other.last<EndJob>() != nullptr; }));
  EXPECT_EQ(signalled.last<EndJob>()->exit_code, 128 + SIGTERM);
  EXPECT_EQ(other.last<EndJob>()->exit_code, 0);
}

TEST_F(CoordinatorTest, WhoWaitsForMoreNodesIsNoSpare) {
  make(2, 2, 1);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.channel.reset();
  second.channel.reset();
  ASSERT_TRUE(until([&] { return coordinator_->connected() == 0; }));
  Guest& third = join(2, "n2");
  for (int position : {0, 1}) coordinator_->host_hopeless(position, {ErrorKind::kPeer, "switched off", {}});
  ASSERT_TRUE(until([&] { return third.last<EndJob>() != nullptr; }));
  EXPECT_EQ(third.last<EndJob>()->exit_code, kMusterFailed);
}

TEST_F(CoordinatorTest, TheStoreOnTheSharedPortIsNotProbedForTorchrun) {
  make(2, 2);
  std::vector<std::string> served;
  coordinator_->serve_other([&](Fd, const net::Address&, std::string_view bytes) { served.emplace_back(bytes); });
  auto say = [&](std::string_view bytes) {
    auto socket = net::connect_tcp("127.0.0.1", address_.port(), Deadline::in(std::chrono::seconds(5)));
    EXPECT_TRUE(socket);
    EXPECT_EQ(::send(socket->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return std::move(*socket);
  };
  const Fd probe = say(kTorchProbe);
  char byte;
  ssize_t answer = -1;
  ASSERT_TRUE(until([&] { return (answer = ::recv(probe.get(), &byte, 1, MSG_DONTWAIT)) >= 0; })) << "it is closed";
  EXPECT_EQ(answer, 0) << "without an answer";
  const Fd worker = say(kTorchHello);
  ASSERT_TRUE(until([&] { return !served.empty(); }));
  EXPECT_EQ(served, std::vector<std::string>{std::string(kTorchHello)});
  EXPECT_TRUE(client_.lines.empty()) << "nobody is refused";
}

// --- liveness and ends ----------------------------------------------------------------------------------------------

TEST_F(CoordinatorTest, AMemberIsAskedNowAndThenAndLostIfItDoesNotAnswer) {
  make(1, 2, 0, std::chrono::milliseconds(500));
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  Guest& hearts = connect(Purpose::kHeartbeat);
  std::function<void()> beat = [&] {  // of both wardens
    for (const Guest* guest : {&first, &second})
      hearts.say(Beat{.node = std::get<Welcome>(guest->told.front()).node, .sequence = 1, .sent = 1, .paused = false});
    loop_.call_after(std::chrono::milliseconds(50), beat);
  };
  beat();
  second.answers = false;
  ASSERT_TRUE(until([&] { return second.closed; }));
  EXPECT_EQ(second.pings, 1) << "one at a time";
  EXPECT_FALSE(first.closed);
  EXPECT_TRUE(client_.lines.back().starts_with("gone n1: its agent has not answered for ")) << client_.lines.back();
}

TEST_F(CoordinatorTest, AWardensGoodbyeLetsTheNextRoundStartAtOnce) {
  make(1, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  const NodeId id = std::get<Welcome>(second.told.front()).node;
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return second.last<StartRound>() != nullptr; }));
  Guest& heart = connect(Purpose::kHeartbeat);
  heart.say(Beat{.node = id, .sequence = 1, .sent = 1, .paused = false});
  ASSERT_TRUE(until([&] { return !heart.told.empty(); }));
  second.channel.reset();
  coordinator_->host_hopeless(1, {ErrorKind::kPeer, "switched off", {}});
  ASSERT_TRUE(until([&] { return first.last<StopRound>() != nullptr; }));
  first.say(RoundEnded{.round = 0, .succeeded = false, .outcomes = {}, .start_error = {}});
  settle(first);
  EXPECT_NE(first.last<StopRound>(), nullptr) << "a closed connection alone is no proof";
  heart.say(Goodbye{id});
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; })) << "long before the lease is over";
}

TEST_F(CoordinatorTest, AWardensGoodbyeEndsAMembershipWhoseControlConnectionIsOpen) {
  make(2, 2);
  Guest& first = join(0, "n0");
  join(1, "n1");
  const NodeId id = std::get<Welcome>(first.told.front()).node;
  Guest& heart = connect(Purpose::kHeartbeat);
  heart.say(Beat{.node = id, .sequence = 1, .sent = 1, .paused = false});
  heart.say(Goodbye{id});
  ASSERT_TRUE(until([&] { return first.closed; }));
  EXPECT_TRUE(client_.has("gone n0: everything of the job on it has ended"));
}

TEST_F(CoordinatorTest, ANodeThatBootedAgainTakesThePlaceOfItsEarlierLife) {
  make(2, 2);
  Guest& first = join(0, "n0");
  first.answers = false;
  Guest& again = connect();
  Join join;
  join.host = "n0";
  join.position = 0;
  again.say(join);
  ASSERT_TRUE(until([&] { return first.pings == 1; })) << "it is asked at once";
  EXPECT_TRUE(again.told.empty()) << "not refused before it is known";
  first.channel.reset();
  ASSERT_TRUE(until([&] { return !again.told.empty(); }));
  EXPECT_NE(again.last<Welcome>(), nullptr);
  EXPECT_EQ(coordinator_->connected(), 1U);
}

TEST_F(CoordinatorTest, ANodeWaitsForItsEarlierLifeUntilThatIsLost) {
  make(2, 2, 0, std::chrono::seconds(5));  // longer than an introduction may take
  Guest& first = join(0, "n0");
  first.answers = false;
  Guest& again = join(0, "n0");
  EXPECT_NE(again.last<Welcome>(), nullptr);
  EXPECT_TRUE(until([&] { return first.closed; }));
  EXPECT_EQ(coordinator_->connected(), 1U);
}

TEST_F(CoordinatorTest, ANodeThatWaitsForItsEarlierLifeHearsThatTheJobIsOver) {
  make(2, 2, 0, std::chrono::minutes(10));
  Guest& first = join(0, "n0");
  first.answers = false;
  Guest& again = connect();
  Join join;
  join.host = "n0";
  join.position = 0;
  again.say(join);
  ASSERT_TRUE(until([&] { return first.pings == 1; }));
  coordinator_->stop(SIGTERM);
  ASSERT_TRUE(until([&] { return !again.told.empty(); }));
  EXPECT_NE(again.last<EndJob>(), nullptr);
}

TEST_F(CoordinatorTest, ANodeThatLeftBeforeItWasLetInComesAsANewLife) {
  make(2, 2);
  bool greeted = false;
  Channel::Options options;
  options.token = token_;
  options.greeting = [&] {
    greeted = true;
    Join join;
    join.host = "n0";
    join.position = 0;
    return encode(join);
  };
  auto connector = Connector::start(loop_, {address_}, options, std::chrono::seconds(5),
                                    Deadline::in(std::chrono::seconds(5)), [](Result<std::unique_ptr<Channel>>) {});
  ASSERT_TRUE(until([&] { return greeted; }));
  connector.reset();
  Guest& again = join(0, "n0");
  ASSERT_NE(again.last<Welcome>(), nullptr);
  ASSERT_EQ(client_.lines.size(), 3U);
  EXPECT_EQ(client_.lines[0], "joined n0");
  EXPECT_TRUE(client_.lines[1].starts_with("gone n0: ")) << client_.lines[1];
  EXPECT_EQ(client_.lines[2], "joined n0");
}

TEST_F(CoordinatorTest, ANodeWhoseEarlierLifeAnswersIsRefusedOnce) {
  make(2, 2);
  Guest& first = join(0, "n0");
  Guest& again = join(0, "n0");
  ASSERT_NE(again.last<Refuse>(), nullptr);
  // Its place becomes free while another node waits for it: that one gets it.
  first.answers = false;
  Guest& third = connect();
  Join join;
  join.host = "n0";
  join.position = 0;
  third.say(join);
  ASSERT_TRUE(until([&] { return first.pings >= 2; }));
  first.channel.reset();
  ASSERT_TRUE(until([&] { return !third.told.empty(); }));
  EXPECT_NE(third.last<Welcome>(), nullptr);
  EXPECT_EQ(again.told.size(), 1U) << "a node that was refused is not taken later";
  EXPECT_EQ(coordinator_->connected(), 1U);
}

TEST_F(CoordinatorTest, ASecondRequestOfANodeKillsAlthoughAnotherAskedFirst) {
  make(2, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return second.last<StartRound>() != nullptr; }));
  auto told_to_stop = [&](int signal) {
    const auto* stop = first.last<StopRound>();
    return stop != nullptr && stop->signal == signal;
  };
  first.say(StopRequest{SIGTERM});
  ASSERT_TRUE(until([&] { return told_to_stop(SIGTERM); }));
  second.say(StopRequest{SIGINT});
  settle(second);
  EXPECT_TRUE(told_to_stop(SIGTERM)) << "it has asked once";
  second.say(StopRequest{SIGINT});
  EXPECT_TRUE(until([&] { return told_to_stop(SIGKILL); }));
}

TEST_F(CoordinatorTest, AKillEndsTheJobAlthoughANodeDoesNot) {
  make(1, 1);
  Guest& node = join(0, "n0");
  ASSERT_TRUE(until([&] { return node.last<OpenStore>() != nullptr; }));
  node.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return node.last<StartRound>() != nullptr; }));
  coordinator_->stop(SIGTERM);
  coordinator_->kill();
  ASSERT_TRUE(until([&] { return node.closed; }));
  ASSERT_TRUE(
      until([&] { return client_.has("ended muster received SIGTERM; n0 has not confirmed the end of its workers"); }));
}

TEST_F(CoordinatorTest, WhoFailedAndHungUpIsStillNamed) {
  make(2, 2);
  Guest& first = join(0, "n0");
  Guest& second = join(1, "n1");
  ASSERT_TRUE(until([&] { return first.last<OpenStore>() != nullptr; }));
  first.say(StoreOpened{.round = 0, .port = 4711, .error = {}});
  ASSERT_TRUE(until([&] { return second.last<StartRound>() != nullptr; }));
  first.say(RoundEnded{.round = 0, .succeeded = false, .outcomes = {}, .start_error = "out of memory"});
  ASSERT_TRUE(until([&] { return second.last<StopRound>() != nullptr; }));
  first.channel.reset();
  ASSERT_TRUE(until([&] { return client_.lines.back().starts_with("gone n0"); }));
  second.say(RoundEnded{.round = 0, .succeeded = false, .outcomes = {}, .start_error = {}});
  ASSERT_TRUE(until([&] { return second.last<EndJob>() != nullptr; }));
  EXPECT_TRUE(client_.has("ended n0: out of memory; no restarts were asked for (--max-restarts)"));
}

}  // namespace
}  // namespace muster::rendezvous
