#include "muster/rendezvous/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/handshake.h"
#include "muster/rendezvous/test/channel_pair.h"
#include "muster/rendezvous/torch_probe.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::End;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A stranger's: one who says nothing at all stays with the kernel for a second.
constexpr std::string_view kFirst = "\xD7";

struct Door {
  net::EventLoop loop;
  std::vector<std::string> logged;
  Log log{[this](LogLevel, std::string_view text) { logged.emplace_back(text); }, LogLevel::kDebug};
  job::Token token = job::Token::random();
  uint16_t port = 0;
  std::vector<std::unique_ptr<Channel>> joined;
  std::vector<std::pair<Fd, std::string>> others;
  std::vector<std::string> refused;
  std::optional<Acceptor> acceptor;

  explicit Door(AcceptorOptions options = {}, const std::string& job = {}) {
    token.set_job(job);
    options.token = token;
    Acceptor::Handlers handlers;
    handlers.joined = [this](std::unique_ptr<Channel> channel) { joined.push_back(std::move(channel)); };
    handlers.other = [this](Fd socket, const net::Address& peer, std::string_view bytes) {
      EXPECT_EQ(peer.host(), "127.0.0.1");
      others.emplace_back(std::move(socket), bytes);
    };
    handlers.refused = [this](const net::Address& peer, const Error& why) {
      refused.push_back(peer.host() + ": " + why.text());
    };
    acceptor.emplace(loop, log, std::move(options), std::move(handlers));
    auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
    port = listener->port;
    acceptor->listen(std::move(listener->fd));
  }

  Fd connect(std::string_view bytes = {}) {
    auto socket = net::connect_tcp("127.0.0.1", port, Deadline::in(seconds(5)));
    EXPECT_TRUE(socket) << socket.error().text();
    EXPECT_EQ(::send(socket->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return std::move(*socket);
  }
  std::unique_ptr<End> join(const job::Token& with) {
    auto end = std::make_unique<End>();
    Channel::Options options;
    options.token = with;
    end->call(loop, connect(), options);
    return end;
  }
  template <typename Condition>
  bool until(Condition condition) {
    return test::run_until(loop, condition);
  }
};

// Whether the other side has closed, without a word.
bool closed_silently(const Fd& socket) {
  char byte;
  ssize_t size = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  EXPECT_LE(size, 0) << "it said something";
  return size == 0 || (size < 0 && errno == ECONNRESET);
}

TEST(Acceptor, LetsInWhoHoldsTheToken) {
  Door door;
  auto client = door.join(door.token);
  client->channel->send("first message");
  ASSERT_TRUE(door.until([&] { return door.joined.size() == 1; }));
  EXPECT_TRUE(door.joined[0]->is_open());
  End server;
  door.joined[0]->resume_on(door.loop, server.handlers());
  ASSERT_TRUE(door.until([&] { return !server.messages.empty(); }));
  EXPECT_THAT(server.messages, ElementsAre("first message"));
  EXPECT_EQ(door.acceptor->strangers_dropped(), 0);
}

TEST(Acceptor, HandsOnWhatSpeaksSomethingElse) {
  Door door;
  Fd store = door.connect("\x01store");
  ASSERT_TRUE(door.until([&] { return door.others.size() == 1; }));
  EXPECT_EQ(door.others[0].second, "\x01store");
  ASSERT_EQ(::send(store.get(), "more", 4, 0), 4);
  char bytes[8];
  ssize_t size = -1;
  ASSERT_TRUE(door.until([&] { return (size = ::recv(door.others[0].first.get(), bytes, sizeof bytes, 0)) > 0; }));
  EXPECT_EQ(std::string_view(bytes, static_cast<size_t>(size)), "more");
  EXPECT_EQ(door.acceptor->strangers_dropped(), 0);
}

TEST(Acceptor, ClosesWhatNobodyWants) {
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  Acceptor acceptor(loop, log, {}, {});
  auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
  acceptor.listen(std::move(listener->fd));
  auto socket = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  ASSERT_EQ(::send(socket->get(), "GET /", 5, 0), 5);
  ASSERT_TRUE(test::run_until(loop, [&] { return closed_silently(*socket); }));
  EXPECT_EQ(acceptor.strangers_dropped(), 1);
}

TEST(Acceptor, LogsTheFirstWhoHasNoProof) {
  Door door;
  const std::string garbage = std::string(kFirst) + std::string(200, 'x');
  const Fd first = door.connect(garbage), second = door.connect(garbage);
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 2; }));
  EXPECT_THAT(door.logged, ElementsAre(HasSubstr("connected and did not prove itself")));
  EXPECT_THAT(door.refused, IsEmpty());
}

TEST(Acceptor, TellsOfAWrongTokenOnceAMinuteAHost) {
  AcceptorOptions options;
  options.refusal_pause = Duration(0);
  Door door(options);
  std::vector<std::unique_ptr<End>> clients;
  clients.reserve(5);
  for (int i = 0; i < 5; ++i) clients.push_back(door.join(job::Token::random()));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 5; }));
  EXPECT_THAT(
      door.refused,
      ElementsAre(HasSubstr("127.0.0.1: 127.0.0.1 belongs to another job or another user (its token differs)")));
  EXPECT_THAT(door.joined, IsEmpty());
  std::string hello = Handshake(door.token, Purpose::kControl).call();
  hello[8] = 77;
  Fd socket = door.connect(hello);
  ASSERT_TRUE(door.until([&] { return door.refused.size() == 2; })) << "that is something else";
}

TEST(Acceptor, TellsOfAWrongTokenAgainWhenItsTimeHasCome) {
  AcceptorOptions options;
  options.same_refusal_pause = Duration(0);
  Door door(options);
  auto one = door.join(job::Token::random()), other = door.join(job::Token::random());
  ASSERT_TRUE(door.until([&] { return door.refused.size() == 2; }));
}

TEST(Acceptor, TellsOfANodeOfAnotherJobInOtherWords) {
  AcceptorOptions options;
  Door door(options, "Slurm job 41");
  job::Token other = door.token;
  other.set_job("Slurm job 42");
  auto client = door.join(other);
  ASSERT_TRUE(door.until([&] { return door.refused.size() == 1; }));
  EXPECT_THAT(door.refused[0],
              HasSubstr("127.0.0.1 belongs to another job of yours: Slurm job 42; this is Slurm job 41"));
  EXPECT_THAT(door.refused[0], Not(HasSubstr("token differs")));
  EXPECT_THAT(door.joined, IsEmpty());
}

TEST(Acceptor, TellsOfSoManyRefusalsAndCountsTheRest) {
  AcceptorOptions options;
  options.refusal_pause = options.same_refusal_pause = Duration(0);
  options.most_refusals = 2;
  options.refusal_window = seconds(2);
  Door door(options);
  std::vector<std::unique_ptr<End>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(door.join(job::Token::random()));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 5; }));
  EXPECT_THAT(door.refused, SizeIs(testing::Le(4)));  // 2, unless this machine took a whole window for them
  ASSERT_TRUE(door.until([&] { return !door.logged.empty(); }));
  EXPECT_THAT(door.logged[0], HasSubstr("more connections within 2 s"));
  const size_t before = door.refused.size();
  clients.push_back(door.join(job::Token::random()));
  ASSERT_TRUE(door.until([&] { return door.refused.size() == before + 1; })) << "a new window";
}

TEST(Acceptor, TellsWhatTheLimitHasKeptBackWhenTheNodeComesAgain) {
  AcceptorOptions options;
  options.refusal_pause = Duration(0);
  options.most_refusals = 1;
  options.refusal_window = milliseconds(500);
  Door door(options);
  std::string hello = Handshake(door.token, Purpose::kControl).call();
  hello[8] = 77;
  Fd socket = door.connect(hello);
  ASSERT_TRUE(door.until([&] { return door.refused.size() == 1; }));
  std::vector<std::unique_ptr<End>> clients;
  ASSERT_TRUE(door.until([&] {
    if (door.acceptor->strangers_dropped() > clients.size()) clients.push_back(door.join(job::Token::random()));
    return door.refused.size() == 2;
  })) << "the first attempts fall into the window that is full";
}

TEST(Acceptor, TellsTheRestBeforeTheWindowEnds) {
  AcceptorOptions options;
  options.refusal_pause = options.same_refusal_pause = Duration(0);
  options.most_refusals = 1;
  options.refusal_window = std::chrono::minutes(10);
  Door door(options);
  std::vector<std::unique_ptr<End>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(door.join(job::Token::random()));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 3; }));
  door.acceptor->tell_rest();
  door.acceptor->tell_rest();
  EXPECT_THAT(door.logged, ElementsAre(HasSubstr("refused 2 more connections")));
}

TEST(Acceptor, NamesAPeerThatSpeaksTorchrunsProtocol) {
  std::vector<std::string> refused;
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  Acceptor::Handlers handlers;
  handlers.refused = [&](const net::Address&, const Error& why) { refused.push_back(why.text()); };
  Acceptor acceptor(loop, log, {}, std::move(handlers));
  auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
  acceptor.listen(std::move(listener->fd));
  auto web = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  auto torch = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  ASSERT_EQ(::send(web->get(), "GET /", 5, 0), 5);
  ASSERT_EQ(::send(torch->get(), kTorchHello.data(), kTorchHello.size(), 0), 5);
  auto muster = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
  ASSERT_EQ(::send(muster->get(), kTorchProbe.data(), kTorchProbe.size(), 0), 10);
  ASSERT_TRUE(test::run_until(loop, [&] { return acceptor.strangers_dropped() == 3; }));
  EXPECT_THAT(refused, ElementsAre(HasSubstr("127.0.0.1 speaks torchrun's protocol")));
}

TEST(Acceptor, ServesWithNewKeysAfterAWhile) {
  AcceptorOptions options;
  options.key_time = milliseconds(1);
  Door door(options);
  auto public_key = [&] {
    Handshake client(door.token, Purpose::kControl);
    Fd socket = door.connect(client.call());
    std::string hello(kServerHelloSize, '\0');
    ssize_t size = -1;
    EXPECT_TRUE(
        door.until([&] { return (size = ::recv(socket.get(), hello.data(), hello.size(), MSG_DONTWAIT)) > 0; }));
    return hello.substr(kClientHelloSize);
  };
  const std::string first = public_key();
  bool time_is_over = false;
  door.loop.call_after(10 * options.key_time, [&] { time_is_over = true; });
  ASSERT_TRUE(door.until([&] { return time_is_over; }));
  EXPECT_NE(public_key(), first);
}

TEST(Acceptor, TellsOfAnotherVersion) {
  Door door;
  std::string hello = Handshake(door.token, Purpose::kControl).call();
  hello[8] = 77;
  Fd socket = door.connect(hello);
  ASSERT_TRUE(door.until([&] { return door.refused.size() == 1; }));
  EXPECT_THAT(door.refused[0], HasSubstr("(protocol 77), this is muster"));
}

TEST(Acceptor, GarbageAndSilenceAreClosedWithoutAWord) {
  AcceptorOptions options;
  options.stranger_time = milliseconds(100);
  Door door(options);
  std::vector<Fd> sockets;
  sockets.push_back(door.connect());
  sockets.push_back(door.connect("\xD7garbage"));
  sockets.push_back(door.connect("\xD7muster?"));
  for (const Fd& socket : sockets) ASSERT_TRUE(door.until([&] { return closed_silently(socket); }));
  EXPECT_EQ(door.acceptor->strangers_dropped(), 3);
  EXPECT_THAT(door.refused, IsEmpty());
  EXPECT_THAT(door.others, IsEmpty());
  // And again, for the timer that follows the oldest.
  Fd another = door.connect(kFirst);
  ASSERT_TRUE(door.until([&] { return closed_silently(another); }));
}

// One that stops half-way has the same time as one that never began.
TEST(Acceptor, WhoDoesNotProveItselfInTimeIsClosed) {
  AcceptorOptions options;
  options.stranger_time = milliseconds(100);
  Door door(options);
  Fd socket = door.connect(Handshake(door.token, Purpose::kControl).call());
  std::string answer(kServerHelloSize, '\0');
  ASSERT_TRUE(door.until([&] { return ::recv(socket.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0; }));
  ASSERT_TRUE(door.until([&] { return closed_silently(socket); }));
  EXPECT_THAT(door.joined, IsEmpty());
}

TEST(Acceptor, TheTimeOfStrangersIsNotThatOfMembers) {
  AcceptorOptions options;
  options.stranger_time = seconds(1);
  Door door(options);
  auto client = door.join(door.token);
  ASSERT_TRUE(door.until([&] { return door.joined.size() == 1; }));
  Fd later = door.connect(kFirst);
  ASSERT_TRUE(door.until([&] { return closed_silently(later); }));
  EXPECT_TRUE(door.joined[0]->is_open());
  EXPECT_THAT(client->closed, IsEmpty());
}

TEST(Acceptor, WhenThereAreTooManyTheOldestGoes) {
  AcceptorOptions options;
  options.max_strangers = 8;
  options.kept_for_expected = 2;
  options.stranger_time = seconds(600);
  options.silent_time = milliseconds(1);
  Door door(options);
  std::vector<Fd> sockets;
  sockets.reserve(10);
  for (int i = 0; i < 10; ++i) sockets.push_back(door.connect(kFirst));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 4; }));
  for (size_t i = 0; i < sockets.size(); ++i) EXPECT_EQ(closed_silently(sockets[i]), i < 4) << i;
  auto client = door.join(door.token);
  ASSERT_TRUE(door.until([&] { return door.joined.size() == 1; }));
}

Fd connect_from(const char* host, uint16_t port) {
  net::Address from = *net::parse_address(host, 0);
  net::Address to = *net::parse_address("127.0.0.1", port);
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&from.storage), from.length), 0);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to.storage), to.length), 0);
  EXPECT_EQ(::send(socket.get(), kFirst.data(), kFirst.size(), 0), static_cast<ssize_t>(kFirst.size()));
  return socket;
}

TEST(Acceptor, PlacesAreKeptForTheExpected) {
  AcceptorOptions options;
  options.max_strangers = 4;
  options.kept_for_expected = 2;
  options.stranger_time = seconds(600);
  options.silent_time = milliseconds(1);
  Door door(options);
  door.acceptor->expect(*net::parse_address("127.0.0.2", 1));
  std::vector<Fd> strangers, expected;
  for (int i = 0; i < 3; ++i) strangers.push_back(door.connect(kFirst));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 1; }));
  for (int i = 0; i < 2; ++i) expected.push_back(connect_from("127.0.0.2", door.port));
  for (int i = 0; i < 3; ++i) strangers.push_back(door.connect(kFirst));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 4; }));
  for (const Fd& socket : expected) EXPECT_FALSE(closed_silently(socket));
  // Beyond their own places they take those of strangers, and in the end their own eldest's.
  for (int i = 0; i < 2; ++i) expected.push_back(connect_from("127.0.0.2", door.port));
  ASSERT_TRUE(door.until([&] { return door.acceptor->strangers_dropped() == 6; }));
  for (const Fd& socket : strangers) EXPECT_TRUE(closed_silently(socket));
  for (const Fd& socket : expected) EXPECT_FALSE(closed_silently(socket));
  Fd stranger = door.connect(kFirst);
  ASSERT_TRUE(door.until([&] { return closed_silently(stranger); }));
  for (const Fd& socket : expected) EXPECT_FALSE(closed_silently(socket));
  expected.push_back(connect_from("127.0.0.2", door.port));
  ASSERT_TRUE(door.until([&] { return closed_silently(expected[0]); }));
  EXPECT_EQ(door.acceptor->strangers_dropped(), 8);
}

// More at once than there are places: none may be lost to the others.
TEST(Acceptor, NodesThatStartTogetherAllGetIn) {
  AcceptorOptions options;
  options.max_strangers = 8;
  options.kept_for_expected = 2;
  options.stranger_time = options.silent_time = options.hello_time = seconds(600);
  Door door(options);
  std::vector<std::unique_ptr<End>> clients;
  clients.reserve(100);
  for (int i = 0; i < 100; ++i) clients.push_back(door.join(door.token));
  ASSERT_TRUE(door.until([&] { return door.joined.size() == clients.size(); }));
  EXPECT_EQ(door.acceptor->strangers_dropped(), 0);
}

TEST(Acceptor, StrangersDoNotKeepMembersOut) {
  Door door;
  std::vector<Fd> strangers;
  strangers.reserve(400);
  for (int i = 0; i < 400; ++i) strangers.push_back(door.connect(kFirst));
  auto client = door.join(door.token);
  ASSERT_TRUE(door.until([&] { return door.joined.size() == 1; }));
  EXPECT_GE(door.acceptor->strangers_dropped(), 400 - 192);
}

TEST(Acceptor, MayBeDestroyedByItsHandlers) {
  for (std::string_view bytes : {"join", "other"}) {
    net::EventLoop loop;
    Log log([](LogLevel, std::string_view) {});
    std::optional<Acceptor> acceptor;
    bool called = false;
    auto destroy = [&, marker = std::string(100, 'm')] {
      acceptor.reset();
      called = marker == std::string(100, 'm');
    };
    Acceptor::Handlers handlers;
    handlers.joined = [&](std::unique_ptr<Channel>) { destroy(); };
    handlers.other = [&](Fd, const net::Address&, std::string_view) { destroy(); };
    acceptor.emplace(loop, log, AcceptorOptions{}, handlers);
    auto listener = net::listen_tcp({.port = 0, .loopback_only = true});
    acceptor->listen(std::move(listener->fd));
    auto socket = net::connect_tcp("127.0.0.1", listener->port, Deadline::in(seconds(5)));
    End client;
    if (bytes == "join")
      client.call(loop, std::move(*socket), {});
    else
      ASSERT_EQ(::send(socket->get(), "x", 1, 0), 1);
    EXPECT_TRUE(test::run_until(loop, [&] { return called; }));
  }
}

}  // namespace
}  // namespace muster::rendezvous
