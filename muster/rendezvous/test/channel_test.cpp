#include "muster/rendezvous/channel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sodium.h>

#include <future>
#include <thread>

#include "muster/base/version.h"
#include "muster/job/crypto.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/handshake.h"
#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::End;
using test::Pair;
using test::Relay;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Channel::Options options_with(const job::Token& token, Purpose purpose = Purpose::kControl) {
  Channel::Options options;
  options.token = token;
  options.purpose = purpose;
  return options;
}

TEST(Channel, OpensAndCarriesMessagesBothWays) {
  job::Token token = job::Token::random();
  Pair pair(options_with(token, Purpose::kHeartbeat), options_with(token));
  EXPECT_FALSE(pair.client.channel->is_open());
  pair.client.channel->send("before it is open");
  pair.client.channel->send("");
  ASSERT_TRUE(pair.open());
  EXPECT_EQ(pair.server.channel->purpose(), Purpose::kHeartbeat);
  EXPECT_EQ(pair.server.channel->peer_version(), version());
  EXPECT_EQ(pair.client.channel->peer_version(), version());
  pair.client.channel->send("after");
  pair.server.channel->send("answer");
  ASSERT_TRUE(
      test::run_until(pair.loop, [&] { return pair.server.messages.size() == 3 && pair.client.messages.size() == 1; }));
  EXPECT_THAT(pair.server.messages, ElementsAre("before it is open", "", "after"));
  EXPECT_THAT(pair.client.messages, ElementsAre("answer"));
  EXPECT_TRUE(pair.client.channel->is_open());
  EXPECT_THAT(pair.client.closed, IsEmpty());
}

TEST(Channel, NeedsNoTokenWhenBothHaveNone) { EXPECT_TRUE(Pair().open()); }

TEST(Channel, TheServerMaySpeakFirst) {
  Pair pair;
  pair.server.channel->send("early");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.messages.empty(); }));
  EXPECT_THAT(pair.client.messages, ElementsAre("early"));
}

TEST(Channel, AWrongTokenIsToldOnBothSides) {
  Pair pair(options_with(job::Token::random()), options_with(job::Token::random()));
  pair.client.channel->send("secret");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty() && !pair.server.closed.empty(); }));
  EXPECT_THAT(pair.client.why(), HasSubstr("the peer belongs to another job or another user (its token differs)"));
  EXPECT_THAT(pair.server.why(), HasSubstr("its token differs"));
  EXPECT_EQ(pair.client.opened + pair.server.opened, 0);
  EXPECT_THAT(pair.server.messages, IsEmpty());
}

TEST(Channel, AGreetingIsForHoldersOfTheTokenAndComesFirst) {
  job::Token token = job::Token::random();
  Channel::Options greeting = options_with(token);
  greeting.greeting = [] { return std::string("greeting"); };
  Relay stranger(greeting, options_with(job::Token::random()));
  stranger.run();
  EXPECT_THAT(stranger.client.why(), HasSubstr("its token differs"));
  EXPECT_THAT(stranger.server.messages, IsEmpty());
  EXPECT_EQ(stranger.up.find("greeting"), std::string::npos);

  Pair pair(greeting, options_with(token));
  pair.client.channel->send("early");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.server.messages.size() == 2; }));
  EXPECT_THAT(pair.server.messages, ElementsAre("greeting", "early"));
}

// A stranger that connects gets nothing that depends on the token, so nothing to check guesses against.
TEST(Channel, TheClientProvesFirst) {
  Relay guess(options_with(job::Token::random()), options_with(job::Token::random()));
  guess.run();
  ASSERT_EQ(guess.down.size(), kServerHelloSize + kEntryHeaderSize + kLengthSize);
  EXPECT_EQ(guess.down.substr(kServerHelloSize), std::string(kEntryHeaderSize + kLengthSize, '\0'));
}

// --- which job --------------------------------------------------------------------------------------------------------

Channel::Options of_job(job::Token token, std::string job) {
  token.set_job(std::move(job));
  return options_with(token);
}

TEST(Channel, TwoJobsWithOneSecretDoNotMeetAndEachIsToldTheOther) {
  const job::Token token = job::Token::random();
  Pair pair(of_job(token, "Slurm job 42"), of_job(token, "Slurm job 41"));
  pair.client.channel->send("join");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty() && !pair.server.closed.empty(); }));
  EXPECT_THAT(pair.client.why(), HasSubstr("belongs to another job of yours: Slurm job 41; this is Slurm job 42; "));
  EXPECT_THAT(pair.server.why(), HasSubstr("belongs to another job of yours: Slurm job 42; this is Slurm job 41"));
  EXPECT_THAT(pair.client.why(), HasSubstr("MUSTER_TOKEN"));
  EXPECT_EQ(pair.client.opened + pair.server.opened, 0);
  EXPECT_THAT(pair.server.messages, IsEmpty());
}

TEST(Channel, ANodeWithoutASchedulerIsNotOfASchedulersJob) {
  const job::Token token = job::Token::random();
  Pair pair(of_job(token, ""), of_job(token, "Slurm job 41"));
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty(); }));
  EXPECT_THAT(pair.client.why(), HasSubstr("another job of yours: Slurm job 41; this is no scheduler's job"));
}

TEST(Channel, AJobOfSeveralSchedulersJobsTakesAll) {
  const job::Token token = job::Token::random();
  const std::string any(job::Token::kAnyJob);
  EXPECT_TRUE(Pair(of_job(token, "Slurm job 42"), of_job(token, any)).open());
  EXPECT_TRUE(Pair(of_job(token, any), of_job(token, "")).open());
  EXPECT_TRUE(Pair(of_job(token, std::string(1000, 'x')), of_job(token, std::string(1000, 'x'))).open());
}

// --- forward secrecy --------------------------------------------------------------------------------------------------

// What the handshake was before it exchanged keys: a hash of both hellos under the token.
Key key_without_exchange(const job::Token& token, const std::string& hellos, std::string_view label) {
  job::init_crypto();
  Key session, key;
  const std::string all = "muster session" + hellos;
  auto bytes = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  crypto_generichash(session.data(), session.size(), bytes(all), all.size(), token.data(), job::Token::kSize);
  crypto_generichash(key.data(), key.size(), bytes(label), label.size(), session.data(), session.size());
  return key;
}

// Whether the holder of the token can read the first message of a recorded connection.
bool readable_with_the_token(Purpose purpose) {
  const job::Token token = job::Token::random();
  Relay relay(options_with(token, purpose), options_with(token));
  relay.run();
  EXPECT_EQ(relay.client.opened, 1);
  const std::string hellos = relay.up.substr(0, kClientHelloSize) + relay.down.substr(0, kServerHelloSize);
  StreamHeader header;
  relay.up.copy(reinterpret_cast<char*>(header.data()), header.size(), kClientHelloSize);
  SecretStream stream;
  stream.start_opening(key_without_exchange(token, hellos, "client to server"), header);
  std::string frame = relay.up.substr(kClientHelloSize + kProofSize + kLengthSize);
  return stream.open(frame.data(), frame.size()).has_value();
}

TEST(Channel, ATokenThatIsStolenLaterOpensNoRecordedConnection) {
  EXPECT_FALSE(readable_with_the_token(Purpose::kControl));
  EXPECT_FALSE(readable_with_the_token(Purpose::kOutput));
  EXPECT_TRUE(readable_with_the_token(Purpose::kHeartbeat)) << "the check itself works";
}

TEST(Channel, APublicKeyThatIsNoneIsRefused) {
  SecretStream in, out;
  std::string answer, proof;
  Handshake client(job::Token(), Purpose::kControl), server(job::Token(), Purpose::kControl);
  ASSERT_EQ(server.called(client.call(), answer), Verdict::kGood);
  answer.replace(kClientHelloSize, 32, std::string(32, '\0'));
  EXPECT_EQ(client.answered(answer, out, proof), Verdict::kNotMuster);
}

TEST(Channel, InsecureAndSecureDoNotMeet) {
  Pair pair({}, options_with(job::Token::random()));
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty() && !pair.server.closed.empty(); }));
  EXPECT_EQ(pair.client.opened + pair.server.opened, 0);
}

TEST(Channel, NothingReadableIsOnTheWire) {
  Relay relay;
  std::string secret(100, 's');
  relay.client.channel->send(secret);
  relay.server.channel->send(secret);
  relay.run();
  ASSERT_THAT(relay.server.messages, ElementsAre(secret));
  ASSERT_THAT(relay.client.messages, ElementsAre(secret));
  EXPECT_EQ(relay.up.find("ssss"), std::string::npos);
  EXPECT_EQ(relay.down.find("ssss"), std::string::npos);
  EXPECT_EQ(static_cast<unsigned char>(relay.up[0]), kFirstByte);
  Relay again;
  again.client.channel->send(secret);
  again.run();
  ASSERT_EQ(again.up.size(), relay.up.size());
  EXPECT_NE(again.up.substr(kClientHelloSize), relay.up.substr(kClientHelloSize));
}

TEST(Channel, WorksByteByByte) {
  Relay relay;
  relay.piece = 1;
  for (int i = 0; i < 5; ++i) relay.client.channel->send(std::to_string(i));
  relay.server.channel->send("x");
  relay.run();
  EXPECT_THAT(relay.server.messages, ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_THAT(relay.client.messages, ElementsAre("x"));
}

// What was read by somebody else first is not lost, wherever it was cut.
TEST(Channel, ServerTakesBytesThatWereReadBefore) {
  for (size_t taken : {size_t{1}, size_t{63}, kClientHelloSize}) {
    net::EventLoop loop;
    End client, server;
    auto [one, other] = test::socket_pair();
    client.call(loop, std::move(one), {});
    char first[kClientHelloSize];
    ASSERT_EQ(::recv(other.get(), first, taken, 0), static_cast<ssize_t>(taken));
    server.serve(loop, std::move(other), {}, {first, taken});
    EXPECT_EQ(server.opened, 0);
    ASSERT_TRUE(test::run_until(loop, [&] { return client.opened == 1 && server.opened == 1; })) << taken;
  }
}

// --- other versions, garbage, cuts ----------------------------------------------------------------------------------

constexpr size_t kProtocolAt = 8;

TEST(Channel, TheServerRefusesAnotherVersionAndNamesBoth) {
  Relay relay;
  relay.flip_up = kProtocolAt;
  relay.run();
  std::string ours = fmt::format("this is muster {} (protocol {})", version(), kProtocolVersion);
  EXPECT_THAT(relay.server.why(),
              HasSubstr(fmt::format("speaks muster {} (protocol {})", version(), kProtocolVersion ^ 0x41)));
  EXPECT_THAT(relay.server.why(), HasSubstr(ours));
  EXPECT_EQ(relay.down.size(), kRefusalSize);
  EXPECT_EQ(relay.down.substr(kClientHelloSize), std::string(kRefusalSize - kClientHelloSize, '\0'));
}

TEST(Channel, AnotherVersionOfTheSameProtocolIsRefusedToo) {
  constexpr size_t kVersionAt = 12;
  std::string other(version());
  other[0] = static_cast<char>(other[0] ^ 0x41);
  Relay up;
  up.flip_up = kVersionAt;
  up.run();
  EXPECT_THAT(up.server.why(), HasSubstr(fmt::format("speaks muster {} (protocol {})", other, kProtocolVersion)));
  EXPECT_THAT(up.server.why(), HasSubstr(fmt::format("this is muster {}", version())));
  Relay down;
  down.flip_down = kVersionAt;
  down.run();
  EXPECT_THAT(down.client.why(), HasSubstr(fmt::format("speaks muster {} (protocol {})", other, kProtocolVersion)));
}

TEST(Channel, TheClientRefusesAnotherVersionAndNamesBoth) {
  Relay relay;
  relay.flip_down = kProtocolAt;
  relay.run();
  EXPECT_THAT(relay.client.why(), HasSubstr(fmt::format("(protocol {}), this is muster", kProtocolVersion ^ 0x41)));
  EXPECT_THAT(relay.client.why(), HasSubstr("use the same muster on every node"));
  EXPECT_EQ(relay.up.size(), kClientHelloSize);
}

TEST(Channel, AVersionThatIsNoTextIsNotRepeated) {
  net::EventLoop loop;
  End server;
  auto [one, other] = test::socket_pair();
  server.serve(loop, std::move(other), {});
  std::string hello = Handshake(job::Token(), Purpose::kControl).call();
  hello[kProtocolAt] = 9;
  hello[12] = '\x1b';
  ASSERT_EQ(::send(one.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  ASSERT_TRUE(test::run_until(loop, [&] { return !server.closed.empty(); }));
  EXPECT_THAT(server.why(), HasSubstr("speaks muster ? (protocol 9)"));
}

TEST(Channel, GarbageIsNoticedAtTheFirstWrongByte) {
  for (bool client_side : {true, false}) {
    net::EventLoop loop;
    End end;
    auto [one, other] = test::socket_pair();
    if (client_side)
      end.call(loop, std::move(other), {});
    else
      end.serve(loop, std::move(other), {});
    ASSERT_EQ(::send(one.get(), "\xD7masta", 6, 0), 6);
    ASSERT_TRUE(test::run_until(loop, [&] { return !end.closed.empty(); }));
    EXPECT_THAT(end.why(), HasSubstr("does not speak muster's protocol"));
    EXPECT_EQ(end.opened, 0);
  }
}

TEST(Channel, AnUnknownPurposeIsGarbage) {
  Relay relay;
  relay.flip_up = 10;
  relay.run();
  EXPECT_THAT(relay.server.why(), HasSubstr("does not speak muster's protocol"));
}

TEST(Channel, AClientThatMeetsItselfNotices) {
  net::EventLoop loop;
  End client;
  auto [one, other] = test::socket_pair();
  client.call(loop, std::move(one), {});
  char hello[kClientHelloSize];
  ASSERT_EQ(::recv(other.get(), hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  ASSERT_EQ(::send(other.get(), hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  ASSERT_TRUE(test::run_until(loop, [&] { return !client.closed.empty(); }));
}

TEST(Channel, SilenceInTheHandshakeEndsIt) {
  for (bool client_side : {true, false}) {
    net::EventLoop loop;
    End end;
    auto [one, other] = test::socket_pair();
    Channel::Options options;
    options.handshake_timeout = milliseconds(1);
    if (client_side)
      end.call(loop, std::move(other), options);
    else
      end.serve(loop, std::move(other), options);
    ASSERT_TRUE(test::run_until(loop, [&] { return !end.closed.empty(); }));
    EXPECT_EQ(end.closed[0].kind, ErrorKind::kTimeout);
    EXPECT_THAT(end.why(), HasSubstr("did not finish the handshake within 0.001 s"));
  }
}

TEST(Channel, AnOpenOneHasNoTimeout) {
  Channel::Options options;
  options.handshake_timeout = seconds(1);
  Pair pair(options, options);
  ASSERT_TRUE(pair.open());
  bool later = false;
  pair.loop.call_after(milliseconds(1100), [&] { later = true; });
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return later; }));
  EXPECT_THAT(pair.server.closed, IsEmpty());
  EXPECT_THAT(pair.client.closed, IsEmpty());
}

void exchange(Relay& relay) {
  relay.client.channel->send("one");
  relay.client.channel->send("two");
  relay.server.channel->send("three");
  relay.run();
}

// All that the client, and the server, say before the connection is open.
constexpr size_t kWholeProof = kClientHelloSize + kProofSize + kLengthSize + kSealSize;
constexpr size_t kWholeEntry = kServerHelloSize + kEntryHeaderSize + kLengthSize + kSealSize;

// At whatever byte the peer goes: one closed(), and no message but the whole ones.
TEST(Channel, ThePeerMayCloseAtEveryByte) {
  Relay whole;
  exchange(whole);
  ASSERT_EQ(whole.server.messages.size() + whole.client.messages.size(), 3);
  for (size_t cut = 0; cut < whole.up.size(); ++cut) {
    Relay relay;
    relay.up_limit = cut;
    exchange(relay);
    ASSERT_EQ(relay.server.closed.size(), 1) << cut;
    EXPECT_EQ(relay.server.closed[0].kind, ErrorKind::kPeer);
    EXPECT_THAT(relay.server.why(), HasSubstr("closed by the peer"));
    EXPECT_EQ(relay.server.opened, cut >= kWholeProof ? 1 : 0);
    EXPECT_EQ(relay.server.messages.size(), cut < kWholeProof + kLengthSize + kSealSize + 3 ? 0 : 1);
  }
  for (size_t cut = 0; cut < whole.down.size(); ++cut) {
    Relay relay;
    relay.down_limit = cut;
    exchange(relay);
    ASSERT_EQ(relay.client.closed.size(), 1) << cut;
    EXPECT_EQ(relay.client.opened, cut >= kWholeEntry ? 1 : 0);
    EXPECT_THAT(relay.client.messages, IsEmpty());
  }
}

// Whatever byte is changed on the way: no message that was not sent, and the end once the connection ends.
TEST(Channel, NoByteCanBeChanged) {
  Relay whole;
  exchange(whole);
  for (size_t flip = 0; flip < whole.up.size(); ++flip) {
    Relay relay;
    relay.flip_up = flip;
    exchange(relay);
    relay.close();
    EXPECT_EQ(relay.server.closed.size(), 1) << flip;
    EXPECT_LT(relay.server.messages.size(), 2) << flip;
    for (const std::string& message : relay.server.messages) EXPECT_EQ(message, "one");
    if (flip < kWholeProof) {
      EXPECT_EQ(relay.server.opened, 0) << flip;
    }
  }
  for (size_t flip = 0; flip < whole.down.size(); ++flip) {
    Relay relay;
    relay.flip_down = flip;
    exchange(relay);
    relay.close();
    EXPECT_EQ(relay.client.closed.size(), 1) << flip;
    EXPECT_THAT(relay.client.messages, IsEmpty());
    if (flip < kWholeEntry) {
      EXPECT_EQ(relay.client.opened, 0) << flip;
    }
  }
}

TEST(Channel, AnOldConnectionCannotBePlayedAgain) {
  Relay first;
  first.client.channel->send("pay");
  first.run();
  ASSERT_THAT(first.server.messages, ElementsAre("pay"));
  net::EventLoop loop;
  End server;
  auto [one, other] = test::socket_pair();
  server.serve(loop, std::move(other), {});
  ASSERT_EQ(::send(one.get(), first.up.data(), first.up.size(), 0), static_cast<ssize_t>(first.up.size()));
  ASSERT_TRUE(test::run_until(loop, [&] { return !server.closed.empty(); }));
  EXPECT_THAT(server.why(), HasSubstr("its token differs"));
  EXPECT_EQ(server.opened, 0);
}

TEST(Channel, AMessageThatIsTooLongEndsTheConnection) {
  Channel::Options small;
  small.max_message = 100;
  Pair pair({}, small);
  pair.client.channel->send(std::string(100, 'x'));
  pair.client.channel->send(std::string(101, 'x'));
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.server.closed.empty(); }));
  EXPECT_EQ(pair.server.messages.size(), 1);
  EXPECT_THAT(pair.server.why(), HasSubstr("sent a frame of 118 bytes; at most 117 were expected"));
}

// --- size and flow --------------------------------------------------------------------------------------------------

std::string pattern(size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(seed = seed * 1103515245 + 12345);
  return text;
}

TEST(Channel, BigAndSmallMessagesArriveInOrder) {
  Pair pair;
  std::vector<std::string> sent;
  unsigned seed = 1;
  for (size_t size : {size_t{1}, size_t{32000}, size_t{33000}, size_t{65536}, size_t{3}, size_t{1} << 20, size_t{0},
                      size_t{70000}, size_t{1} << 20, size_t{5}})
    sent.push_back(pattern(size, seed++));
  for (const std::string& message : sent) pair.client.channel->send(message);
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.server.messages.size() == sent.size(); }));
  EXPECT_TRUE(pair.server.messages == sent);
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.client.drained >= 1; }));
  EXPECT_EQ(pair.client.channel->unsent(), 0);
}

TEST(Channel, AReaderThatPausesHoldsTheSenderBack) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.server.channel->pause(true);
  std::string message = pattern(50000, 7);
  size_t sent = 0;
  for (; pair.client.channel->unsent() == 0 && sent < 10000; ++sent) pair.client.channel->send(message);
  ASSERT_GT(pair.client.channel->unsent(), 0);
  pair.settle();
  EXPECT_THAT(pair.server.messages, IsEmpty());
  EXPECT_GT(pair.client.channel->unsent(), 0);
  EXPECT_EQ(pair.client.drained, 0);
  pair.server.channel->pause(false);
  ASSERT_TRUE(
      test::run_until(pair.loop, [&] { return pair.server.messages.size() == sent && pair.client.drained == 1; }));
  for (const std::string& received : pair.server.messages) EXPECT_TRUE(received == message);
}

TEST(Channel, PausingBetweenTwoMessagesOfOneReadLosesNone) {
  Pair pair;
  Channel::Handlers handlers = pair.server.handlers();
  handlers.received = [&](std::string_view message) {
    pair.server.messages.emplace_back(message);
    pair.server.channel->pause(true);
  };
  ASSERT_TRUE(pair.open());
  pair.server.channel->resume_on(pair.loop, handlers);
  for (int i = 0; i < 5; ++i) pair.client.channel->send(std::to_string(i));
  for (size_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.server.messages.size() == i; }));
    pair.settle();
    ASSERT_EQ(pair.server.messages.size(), i);
    pair.server.channel->pause(false);
  }
  pair.client.channel->send("5");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.server.messages.size() == 6; }));
  EXPECT_THAT(pair.server.messages, ElementsAre("0", "1", "2", "3", "4", "5"));
}

TEST(Channel, APausedOneHearsOfTheEndAfterTheLastMessage) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.server.channel->pause(true);
  pair.client.channel->send("last words");
  pair.client.channel.reset();
  pair.settle();
  EXPECT_THAT(pair.server.closed, IsEmpty());
  pair.server.channel->pause(false);
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.server.closed.empty(); }));
  EXPECT_THAT(pair.server.messages, ElementsAre("last words"));
}

// The kernel tells of a reset whether one asks or not; the loop must still sleep.
TEST(Channel, APausedOneSleepsAfterAReset) {
  auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
  auto connected = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  auto accepted = net::accept_tcp(listener->fd.get(), nullptr);
  ASSERT_TRUE(connected && accepted && *accepted);
  net::EventLoop loop;
  End client, server;
  int socket = connected->get();
  client.call(loop, std::move(*connected), {});
  server.serve(loop, std::move(*accepted), {});
  ASSERT_TRUE(test::run_until(loop, [&] { return client.opened == 1 && server.opened == 1; }));
  server.channel->pause(true);
  client.channel->send("last words");
  linger reset{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  client.channel.reset();
  int turns = 0;
  auto hook = loop.add_end_hook([&] { ++turns; });
  loop.run_until(Deadline::in(milliseconds(50)));
  loop.remove_end_hook(hook);
  EXPECT_LT(turns, 10);
  EXPECT_THAT(server.closed, IsEmpty());
  server.channel->pause(false);
  ASSERT_TRUE(test::run_until(loop, [&] { return !server.closed.empty(); }));
  EXPECT_THAT(server.messages, ElementsAre("last words"));
  EXPECT_THAT(server.why(), HasSubstr("closed by"));
  EXPECT_FALSE(server.channel->ended_orderly());
}

TEST(Channel, EndsOrderlyIfThePeerClosesBetweenTwoMessages) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.client.channel->send("last words");
  pair.client.channel.reset();
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.server.closed.empty(); }));
  EXPECT_TRUE(pair.server.channel->ended_orderly());
}

TEST(Channel, DoesNotEndOrderlyWithinAMessageOrAfterAChangedOne) {
  for (bool changed : {false, true}) {
    Relay relay;
    relay.run();
    ASSERT_EQ(relay.server.opened, 1);
    (changed ? relay.flip_up : relay.up_limit) = relay.up.size() + 8;
    relay.client.channel->send("last words");
    relay.run();
    ASSERT_EQ(relay.server.closed.size(), 1U);
    EXPECT_FALSE(relay.server.channel->ended_orderly());
  }
}

// The write is told of the reset, and the read that follows finds what looks like an end.
TEST(Channel, DoesNotEndOrderlyIfAWriteWasTold) {
  auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
  auto connected = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  auto accepted = net::accept_tcp(listener->fd.get(), nullptr);
  ASSERT_TRUE(connected && accepted && *accepted);
  net::EventLoop loop;
  End client, server;
  int socket = connected->get();
  client.call(loop, std::move(*connected), {});
  server.serve(loop, std::move(*accepted), {});
  ASSERT_TRUE(test::run_until(loop, [&] { return client.opened == 1 && server.opened == 1; }));
  linger reset{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  client.channel.reset();
  server.channel->send("are you there?");
  ASSERT_TRUE(test::run_until(loop, [&] { return !server.closed.empty(); }));
  EXPECT_FALSE(server.channel->ended_orderly());
}

// The peer said why before it closed; that must not be lost to our own failing write.
TEST(Channel, WritingToAClosedPeerDoesNotHideWhatItSaid) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.server.channel->send("you are refused");
  pair.server.channel.reset();
  for (int i = 0; i < 3; ++i) pair.client.channel->send("hello?");
  EXPECT_THAT(pair.client.closed, IsEmpty());  // never from within send()
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty(); }));
  EXPECT_THAT(pair.client.messages, ElementsAre("you are refused"));
  EXPECT_THAT(pair.client.why(), HasSubstr("closed by the peer"));
  EXPECT_EQ(pair.client.drained, 0);
  pair.client.channel->send("nobody hears this");
  EXPECT_EQ(pair.client.channel->unsent(), 0);
}

TEST(Channel, APeerThatDoesNotReadIsGivenUp) {
  Channel::Options options;
  options.max_unsent = 1 << 20;
  Pair pair(options, {});
  ASSERT_TRUE(pair.open());
  pair.server.channel->pause(true);
  std::string message(100000, 'x');
  for (int i = 0; i < 100; ++i) pair.client.channel->send(message);
  EXPECT_LE(pair.client.channel->unsent(), options.max_unsent);
  EXPECT_THAT(pair.client.closed, IsEmpty());  // never from within send()
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty(); }));
  EXPECT_THAT(pair.client.why(), HasSubstr("does not read"));
  EXPECT_EQ(pair.client.closed.size(), 1);
  EXPECT_FALSE(pair.client.channel->is_open());
}

TEST(Channel, TheLimitHoldsBeforeItIsOpenToo) {
  Channel::Options options;
  options.max_unsent = 1000;
  Pair pair(options, {});
  for (int i = 0; i < 3; ++i) pair.client.channel->send(std::string(400, 'x'));
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.client.closed.empty(); }));
  EXPECT_THAT(pair.client.why(), HasSubstr("does not read"));
}

// --- life -----------------------------------------------------------------------------------------------------------

TEST(Channel, EveryHandlerMayDestroyIt) {
  for (std::string_view which : {"opened", "received", "closed", "drained"}) {
    Pair pair;
    bool called = false;
    auto destroy = [&, marker = std::string(100, 'm')] {  // a capture that is gone if the handler is
      pair.server.channel.reset();
      called = marker == std::string(100, 'm');
    };
    Channel::Handlers handlers;
    handlers.received = [](std::string_view) {};
    if (which == "opened") {
      auto [one, other] = test::socket_pair();
      handlers.opened = destroy;
      pair.server.channel = Channel::server(pair.loop, std::move(other), {}, {}, handlers);
      pair.client.call(pair.loop, std::move(one), {});
    } else {
      ASSERT_TRUE(pair.open());
      if (which == "received") handlers.received = [&](std::string_view) { destroy(); };
      if (which == "closed") handlers.closed = [&](const Error&) { destroy(); };
      if (which == "drained") handlers.drained = destroy;
      pair.server.channel->resume_on(pair.loop, handlers);
    }
    if (which == "received")
      for (int i = 0; i < 3; ++i) pair.client.channel->send("x");
    if (which == "closed") pair.client.channel.reset();
    if (which == "drained") pair.server.channel->send(std::string(1 << 20, 'x'));
    EXPECT_TRUE(test::run_until(pair.loop, [&] { return called; })) << which;
    pair.settle();
  }
}

TEST(Channel, NothingIsToldAfterItIsDestroyed) {
  Pair pair({}, options_with(job::Token::random()));
  pair.client.channel.reset();
  pair.server.channel.reset();
  pair.settle();
  EXPECT_EQ(pair.client.opened + pair.server.opened, 0);
  EXPECT_THAT(pair.client.closed, IsEmpty());
  EXPECT_THAT(pair.server.closed, IsEmpty());
}

// What one answers to the first message goes out with the word that the peer is in.
TEST(Channel, NothingIsLeftBehindByNewHandlersInTheMiddleOfAMessage) {
  Pair pair;
  Channel::Handlers first;
  first.received = [&](std::string_view message) {
    EXPECT_EQ(message, "join");
    pair.server.channel->resume_on(pair.loop, pair.server.handlers());
    pair.server.channel->send("welcome");
  };
  auto [one, other] = test::socket_pair();
  pair.client = {};
  pair.server.channel = Channel::server(pair.loop, std::move(other), {}, {}, first);
  pair.client.call(pair.loop, std::move(one), {});
  for (const char* message : {"join", "second", "third"}) pair.client.channel->send(message);
  ASSERT_TRUE(
      test::run_until(pair.loop, [&] { return pair.server.messages.size() == 2 && pair.client.messages.size() == 1; }));
  EXPECT_THAT(pair.server.messages, ElementsAre("second", "third"));
  EXPECT_THAT(pair.client.messages, ElementsAre("welcome"));
}

TEST(Channel, WithoutAReceiverMessagesWait) {
  Pair pair;
  Channel::Handlers none;
  int opened = 0;
  auto [one, other] = test::socket_pair();
  none.opened = [&] { ++opened; };
  pair.server.channel = Channel::server(pair.loop, std::move(other), {}, {}, none);
  pair.client.call(pair.loop, std::move(one), {});
  pair.client.channel->send("with the proof");
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return opened == 1; }));
  pair.client.channel->send("later");
  pair.settle();
  pair.server.channel->resume_on(pair.loop, pair.server.handlers());
  EXPECT_THAT(pair.server.messages, IsEmpty());
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return pair.server.messages.size() == 2; }));
  EXPECT_THAT(pair.server.messages, ElementsAre("with the proof", "later"));
}

TEST(Channel, ALateHandlerStillHearsOfTheEnd) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.server.channel->resume_on(pair.loop, {});
  pair.client.channel.reset();
  pair.settle();
  pair.server.channel->resume_on(pair.loop, pair.server.handlers());
  ASSERT_TRUE(test::run_until(pair.loop, [&] { return !pair.server.closed.empty(); }));
}

// The whole way of a heartbeat connection: opened on one thread, which hands it to another while bytes are under way.
TEST(Channel, MovesToAnotherThread) {
  constexpr int kMessages = 1000;
  net::EventLoop loop;
  End client;
  std::unique_ptr<Channel> moving;
  std::promise<std::unique_ptr<Channel>> handed;
  std::thread other([&] {
    net::EventLoop own;
    std::unique_ptr<Channel> channel = handed.get_future().get();
    Channel::Handlers handlers;
    handlers.received = [&](std::string_view message) { channel->send(message); };
    handlers.closed = [&](const Error&) { own.stop(); };
    channel->resume_on(own, std::move(handlers));
    EXPECT_TRUE(own.run_until(Deadline::in(seconds(20))));
  });
  auto [one, socket] = test::socket_pair();
  Channel::Handlers handlers;
  int before = 0;
  handlers.received = [&](std::string_view) {
    if (++before < 3) return;
    moving->detach();
    handed.set_value(std::move(moving));
  };
  moving = Channel::server(loop, std::move(socket), {}, {}, std::move(handlers));
  client.call(loop, std::move(one), {});
  for (int i = 0; i < kMessages; ++i) client.channel->send(std::to_string(i));
  EXPECT_TRUE(test::run_until(loop, [&] { return client.messages.size() == kMessages - 3; }));
  for (size_t i = 0; i < client.messages.size(); ++i) EXPECT_EQ(client.messages[i], std::to_string(i + 3));
  client.channel.reset();
  other.join();
}

TEST(Channel, WhatIsSentWhileDetachedGoesOutLater) {
  Pair pair;
  ASSERT_TRUE(pair.open());
  pair.server.channel->detach();
  pair.client.channel->send("to the detached");
  pair.settle();
  EXPECT_THAT(pair.server.messages, IsEmpty());
  pair.server.channel->send("from the detached");
  pair.server.channel->resume_on(pair.loop, pair.server.handlers());
  ASSERT_TRUE(
      test::run_until(pair.loop, [&] { return pair.server.messages.size() == 1 && pair.client.messages.size() == 1; }));
}

TEST(Channel, KnowsItsAddresses) {
  auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
  ASSERT_TRUE(listener);
  auto connected = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  ASSERT_TRUE(connected);
  net::Address from;
  auto accepted = net::accept_tcp(listener->fd.get(), &from);
  ASSERT_TRUE(accepted && *accepted);
  net::EventLoop loop;
  End server;
  server.channel = Channel::server(loop, std::move(*accepted), from, {}, server.handlers());
  EXPECT_EQ(server.channel->local().text(), fmt::format("127.0.0.1:{}", listener->port));
  EXPECT_EQ(server.channel->peer().text(), from.text());
  connected->reset();
  ASSERT_TRUE(test::run_until(loop, [&] { return !server.closed.empty(); }));
  EXPECT_THAT(server.why(), HasSubstr("closed by " + from.text() + " during the handshake"));
  EXPECT_EQ(server.channel->local().port(), listener->port);
}

}  // namespace
}  // namespace muster::rendezvous
