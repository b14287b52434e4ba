#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <map>
#include <optional>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/handshake.h"
#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::End;
using test::run_until;
using testing::HasSubstr;

net::Address loopback(uint16_t port) { return *net::parse_address("127.0.0.1", port); }

// A port on which nobody listens (any more).
uint16_t free_port() { return net::listen_tcp({.port = 0, .loopback_only = true})->port; }

// Serves every connection with one token.
struct Server {
  net::EventLoop& loop;
  Channel::Options options;
  Fd listener;
  uint16_t port = 0;
  std::vector<std::unique_ptr<End>> ends;

  Server(net::EventLoop& on, const job::Token& token, uint16_t at = 0) : loop(on) {
    options.token = token;
    auto listening = net::listen_tcp({.port = at, .loopback_only = true});
    EXPECT_TRUE(listening) << listening.error().text();
    listener = std::move(listening->fd);
    port = listening->port;
    loop.watch(listener.get(), EPOLLIN, [this](uint32_t) {
      auto socket = net::accept_tcp(listener.get(), nullptr);
      ASSERT_TRUE(socket && *socket);
      ends.push_back(std::make_unique<End>());
      ends.back()->serve(loop, std::move(*socket), options);
    });
  }
  ~Server() { loop.unwatch(listener.get()); }
};

struct Connecting {
  net::EventLoop& loop;
  job::Token token = job::Token::random();
  std::function<std::string()> greeting;
  std::unique_ptr<Connector> connector;
  std::optional<Result<std::unique_ptr<Channel>>> result;

  explicit Connecting(net::EventLoop& on) : loop(on) {}
  void start(std::vector<net::Address> addresses, Duration each = seconds(5), Duration all = seconds(10)) {
    Channel::Options options;
    options.token = token;
    options.greeting = greeting;
    connector = Connector::start(loop, std::move(addresses), options, each, Deadline::in(all),
                                 [this](Result<std::unique_ptr<Channel>> outcome) {
                                   EXPECT_FALSE(result);
                                   result.emplace(std::move(outcome));
                                   connector.reset();
                                 });
    EXPECT_FALSE(result);
  }
  bool finish() {
    return run_until(loop, [&] { return result.has_value(); });
  }
};

TEST(Connector, GivesAnOpenChannel) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server server(loop, connecting.token);
  connecting.start({loopback(server.port)});
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  Channel& channel = **connecting.result.value();
  EXPECT_TRUE(channel.is_open());
  EXPECT_EQ(channel.peer().port(), server.port);
  EXPECT_EQ(channel.local().host(), "127.0.0.1");
  channel.limit_silence(seconds(12));
  unsigned limit = 0;
  socklen_t size = sizeof limit;
  ASSERT_EQ(::getsockopt(channel.share_socket().get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, &size), 0);
  EXPECT_EQ(limit, 12000U);
  End client;
  channel.resume_on(loop, client.handlers());
  channel.send("ping");
  ASSERT_TRUE(run_until(loop, [&] { return server.ends.size() == 1 && server.ends[0]->messages.size() == 1; }));
  server.ends[0]->channel->send("pong");
  ASSERT_TRUE(run_until(loop, [&] { return client.messages.size() == 1; }));
}

TEST(Connector, TriesUntilTheServerIsThere) {
  net::EventLoop loop;
  Connecting connecting(loop);
  uint16_t port = free_port();
  connecting.start({loopback(port)});
  ASSERT_TRUE(run_until(loop, [&] { return !connecting.connector->telling_failure().empty(); }));
  EXPECT_EQ(connecting.connector->telling_failure(), fmt::format("127.0.0.1:{}: connection refused", port));
  Server server(loop, connecting.token, port);
  ASSERT_TRUE(connecting.finish());
  EXPECT_TRUE(*connecting.result);
}

TEST(Connector, GoesOnToTheNextAddress) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server stranger(loop, job::Token::random());
  Server server(loop, connecting.token);
  auto silent = net::listen_tcp({.port = 0, .loopback_only = true});
  connecting.start({loopback(free_port()), loopback(silent->port), loopback(stranger.port), loopback(server.port)},
                   milliseconds(50));
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), server.port);
}

TEST(Connector, AWrongTokenEverywhereIsFinal) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server one(loop, job::Token::random());
  Server two(loop, job::Token::random());
  connecting.start({loopback(one.port), loopback(two.port)}, seconds(60), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  EXPECT_EQ(connecting.result->error().kind, ErrorKind::kPeer);
  EXPECT_THAT(
      connecting.result->error().message,
      HasSubstr(fmt::format("127.0.0.1:{} belongs to another job or another user (its token differs)", two.port)));
  ASSERT_TRUE(run_until(loop, [&] { return one.ends.size() == 1 && one.ends[0]->closed.size() == 1; }));
  EXPECT_THAT(one.ends[0]->why(), HasSubstr("its token differs"));
}

// Answers every hello as a muster of another version does.
struct OtherVersion {
  net::EventLoop& loop;
  net::Listener listener = *net::listen_tcp({.port = 0, .loopback_only = true});
  Fd accepted;

  explicit OtherVersion(net::EventLoop& on) : loop(on) {
    loop.watch(listener.fd.get(), EPOLLIN, [this](uint32_t) {
      accepted = *net::accept_tcp(listener.fd.get(), nullptr);
      std::string refusal(kRefusalSize, '\0');
      refusal.replace(0, 8, "\xD7muster!");
      refusal[8] = 9;
      refusal.replace(12, 5, "9.8.7");
      EXPECT_EQ(::send(accepted.get(), refusal.data(), refusal.size(), 0), static_cast<ssize_t>(refusal.size()));
    });
  }
  ~OtherVersion() { loop.unwatch(listener.fd.get()); }
};

TEST(Connector, AnotherVersionEverywhereIsFinal) {
  net::EventLoop loop;
  Connecting connecting(loop);
  OtherVersion one(loop);
  Server stranger(loop, job::Token::random());
  connecting.start({loopback(stranger.port), loopback(one.listener.port)}, seconds(60), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  EXPECT_THAT(connecting.result->error().message, HasSubstr("speaks muster 9.8.7 (protocol 9), this is muster"));
}

// Nothing proves who has sent that: a stranger at one port must not keep a node from its job.
TEST(Connector, AnotherVersionAtOneAddressIsPassedOver) {
  net::EventLoop loop;
  Connecting connecting(loop);
  OtherVersion stranger(loop);
  Server server(loop, connecting.token);
  connecting.start({loopback(stranger.listener.port), loopback(server.port)}, seconds(60), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), server.port);
}

// As the store of torch 2.2 and later: it reads on and says nothing to what it does not know, and answers a ping.
struct TorchStore {
  net::EventLoop& loop;
  net::Listener listener = *net::listen_tcp({.port = 0, .loopback_only = true});
  std::vector<Fd> accepted;

  explicit TorchStore(net::EventLoop& on) : loop(on) {
    loop.watch(listener.fd.get(), EPOLLIN, [this](uint32_t) {
      accepted.push_back(*net::accept_tcp(listener.fd.get(), nullptr));
      loop.watch(accepted.back().get(), EPOLLIN, [this, socket = accepted.back().get()](uint32_t) {
        char bytes[64];
        const ssize_t size = ::recv(socket, bytes, sizeof bytes, 0);
        if (size <= 0) return loop.unwatch(socket);
        const bool ping = bytes[0] == 0 && size == 10;
        EXPECT_EQ(::send(socket, &bytes[6], ping ? 4 : 0, MSG_NOSIGNAL), ping ? 4 : 0);
      });
    });
  }
  ~TorchStore() {
    for (const Fd& socket : accepted)
      if (loop.watches(socket.get())) loop.unwatch(socket.get());
    loop.unwatch(listener.fd.get());
  }
};

TEST(Connector, NamesTorchrunWhereItsStoreAnswers) {
  net::EventLoop loop;
  Connecting connecting(loop);
  TorchStore store(loop);
  connecting.start({loopback(store.listener.port)}, milliseconds(20), seconds(600));
  ASSERT_TRUE(run_until(loop, [&] {
    return connecting.connector->telling_failure() ==
           fmt::format("127.0.0.1:{}: it speaks torchrun's protocol (that of PyTorch's store), not muster's",
                       store.listener.port);
  })) << connecting.connector->telling_failure();
  connecting.connector.reset();
}

TEST(Connector, ForgetsATorchrunThatIsGone) {
  net::EventLoop loop;
  Connecting connecting(loop);
  std::optional<TorchStore> store(std::in_place, loop);
  const uint16_t port = store->listener.port;
  connecting.start({loopback(port)}, milliseconds(20), seconds(600));
  auto shown = [&] { return connecting.connector->telling_failure(); };
  ASSERT_TRUE(run_until(loop, [&] { return shown().find("torchrun") != std::string::npos; }));
  store.reset();
  ASSERT_TRUE(run_until(loop, [&] { return shown() == fmt::format("127.0.0.1:{}: connection refused", port); }))
      << shown();
  connecting.connector.reset();
}

job::Token of_job(job::Token token, std::string job) {
  token.set_job(std::move(job));
  return token;
}

TEST(Connector, AnotherJobEverywhereIsFinalAndBothAreNamed) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server server(loop, of_job(connecting.token, "Slurm job 41"));
  connecting.token.set_job("Slurm job 42");
  connecting.start({loopback(server.port)}, seconds(60), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  EXPECT_THAT(connecting.result->error().message,
              HasSubstr(fmt::format("127.0.0.1:{} belongs to another job of yours: Slurm job 41; this is Slurm job 42",
                                    server.port)));
}

TEST(Connector, GoesOnFromAnotherJobToItsOwn) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server other(loop, of_job(connecting.token, "Slurm job 41"));
  connecting.token.set_job("Slurm job 42");
  Server own(loop, connecting.token);
  connecting.start({loopback(other.port), loopback(own.port)}, seconds(60), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), own.port);
}

TEST(Connector, AtTheDeadlineItSaysWhatFailedWhere) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server stranger(loop, job::Token::random());
  uint16_t closed = free_port();
  auto silent = net::listen_tcp({.port = 0, .loopback_only = true});
  connecting.start({loopback(closed), loopback(stranger.port), loopback(silent->port)}, seconds(60), seconds(1));
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  const Error& error = connecting.result->error();
  EXPECT_EQ(error.kind, ErrorKind::kTimeout);
  EXPECT_THAT(error.message, HasSubstr(fmt::format("127.0.0.1:{}: connection refused", closed)));
  EXPECT_THAT(error.message, HasSubstr(fmt::format("127.0.0.1:{} belongs to another job", stranger.port)));
  EXPECT_THAT(error.message, HasSubstr(fmt::format("127.0.0.1:{}: connected, but no handshake within", silent->port)));
}

TEST(Connector, ARefusedConnectionTellsMoreThanSilence) {
  net::EventLoop loop;
  Connecting connecting(loop);
  auto silent = net::listen_tcp({.port = 0, .loopback_only = true});
  const uint16_t closed = free_port();
  connecting.start({loopback(silent->port), loopback(closed)}, milliseconds(100), seconds(600));
  auto shown = [&] { return connecting.connector->telling_failure(); };
  ASSERT_TRUE(run_until(loop, [&] { return !shown().empty(); }));
  EXPECT_THAT(shown(), HasSubstr(fmt::format("127.0.0.1:{}: connected, but no handshake", silent->port)));
  const std::string refused = fmt::format("127.0.0.1:{}: connection refused", closed);
  ASSERT_TRUE(run_until(loop, [&] { return shown() == refused; }));
}

TEST(Connector, AWrongTokenTellsMostAndWhatFailedAlikeIsSaidOnce) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server stranger(loop, job::Token::random());
  auto silent = net::listen_tcp({.port = 0, .loopback_only = true});
  const uint16_t closed = free_port();
  connecting.start({loopback(closed), loopback(stranger.port), loopback(closed), loopback(silent->port)}, seconds(60),
                   seconds(1));
  std::string shown;
  connecting.loop.add_end_hook([&] {
    if (connecting.connector) shown = connecting.connector->telling_failure();
  });
  ASSERT_TRUE(connecting.finish());
  EXPECT_THAT(shown, HasSubstr(fmt::format("127.0.0.1:{} belongs to another job", stranger.port)));
  const Error& error = connecting.result->error();
  EXPECT_EQ(error.kind, ErrorKind::kTimeout);
  const std::string tried = error.message.substr(error.message.find(" s: ") + 4);
  EXPECT_THAT(tried,
              testing::StartsWith(fmt::format("127.0.0.1:{0}: 127.0.0.1:{0} belongs to another job", stranger.port)));
  EXPECT_THAT(tried, HasSubstr(fmt::format("; 127.0.0.1:{} (and 1 more): connection refused; 127.0.0.1:{}: connected",
                                           closed, silent->port)));
  EXPECT_THAT(error.hint, HasSubstr("the same --rdzv-id"));
}

TEST(Connector, WithoutAddressesItFailsAtTheDeadline) {
  net::EventLoop loop;
  Connecting connecting(loop);
  connecting.start({}, seconds(5), milliseconds(1));
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  EXPECT_THAT(connecting.result->error().message, HasSubstr("no address to try"));
}

TEST(Connector, MayBeToldOtherAddresses) {
  net::EventLoop loop;
  Connecting connecting(loop);
  Server server(loop, connecting.token);
  connecting.start({});
  connecting.connector->aim_at({}, {{"n1:1", "cannot resolve 'n1'"}});
  EXPECT_EQ(connecting.connector->telling_failure(), "cannot resolve 'n1'");
  const uint16_t closed = free_port();
  connecting.connector->aim_at({loopback(closed)}, {});
  ASSERT_TRUE(run_until(loop, [&] { return !connecting.connector->telling_failure().empty(); }));
  EXPECT_EQ(connecting.connector->telling_failure(), fmt::format("127.0.0.1:{}: connection refused", closed));
  connecting.connector->aim_at({loopback(server.port)}, {});
  ASSERT_TRUE(connecting.finish());
  EXPECT_TRUE(*connecting.result);
}

// A server that has answered the hello and lets nobody in before it is told to.
struct SlowServer {
  net::EventLoop& loop;
  Handshake handshake;
  net::Listener listener = *net::listen_tcp({.port = 0, .loopback_only = true});
  Fd socket;
  int accepted = 0;
  SecretStream in, out;

  SlowServer(net::EventLoop& on, const job::Token& token) : loop(on), handshake(token, Purpose::kControl) {
    loop.watch(listener.fd.get(), EPOLLIN, [this](uint32_t) {
      ++accepted;
      socket = *net::accept_tcp(listener.fd.get(), nullptr);
      loop.watch(socket.get(), EPOLLIN, [this](uint32_t) { answer(); });
    });
  }
  ~SlowServer() { loop.unwatch(listener.fd.get()); }

  void answer() {
    loop.unwatch(socket.get());
    std::string answer;
    ASSERT_EQ(handshake.called(read(kClientHelloSize), answer), Verdict::kGood);
    write(answer);
  }

  // The greeting that came with the proof.
  std::string let_in() {
    std::string entry;
    EXPECT_EQ(handshake.proven(read(kProofSize), in, out, entry), Verdict::kGood);
    EXPECT_EQ(read_sealed(), "") << "the job's name";
    out.seal({}, entry);
    write(entry);
    return read_sealed();
  }

  std::string read_sealed() {
    std::string sealed = read(static_cast<unsigned char>(read(kLengthSize)[0]));
    return std::string(in.open(sealed.data(), sealed.size()).value_or("?"));
  }

  std::string read(size_t size) const {
    std::string bytes(size, '\0');  // what is small comes whole
    EXPECT_EQ(::recv(socket.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    return bytes;
  }
  void write(const std::string& bytes) const {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
};

// Who may have acted upon the greeting must not hear it again from a second connection.
TEST(Connector, StaysWithWhomItHasGreeted) {
  net::EventLoop loop;
  Connecting connecting(loop);
  bool greeted = false;
  connecting.greeting = [&] {
    greeted = true;
    return std::string("it is me");
  };
  SlowServer slow(loop, connecting.token);
  Server other(loop, connecting.token);
  connecting.start({loopback(slow.listener.port), loopback(other.port)}, seconds(1), seconds(60));
  ASSERT_TRUE(run_until(loop, [&] { return greeted; }));
  connecting.connector->aim_at({loopback(other.port)}, {});
  ASSERT_TRUE(run_until(loop, [&] { return !connecting.connector->telling_failure().empty(); }));
  EXPECT_THAT(connecting.connector->telling_failure(), HasSubstr(": connected, but no handshake within "));
  EXPECT_EQ(slow.let_in(), "it is me");
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), slow.listener.port);
  EXPECT_EQ(slow.accepted, 1);
  EXPECT_EQ(other.ends.size(), 0U);
}

// Anybody can send a server's hello: a stranger at one port must not keep a node from its job.
TEST(Connector, LeavesAGreetedServerThatDoesNotProveItself) {
  net::EventLoop loop;
  Connecting connecting(loop);
  connecting.greeting = [] { return std::string("it is me"); };
  SlowServer stranger(loop, job::Token::random());
  Server server(loop, connecting.token);
  connecting.start({loopback(stranger.listener.port), loopback(server.port)}, milliseconds(100), seconds(600));
  ASSERT_TRUE(connecting.finish());
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), server.port);
}

TEST(Connector, LeavesItsOnlyAddressForOthersThatAreFoundLater) {
  net::EventLoop loop;
  Connecting connecting(loop);
  bool greeted = false;
  connecting.greeting = [&] {
    greeted = true;
    return std::string("it is me");
  };
  SlowServer stranger(loop, job::Token::random());
  Server server(loop, connecting.token);
  connecting.start({loopback(stranger.listener.port)}, milliseconds(100), seconds(600));
  ASSERT_TRUE(run_until(loop, [&] { return greeted; }));
  auto hook = loop.add_end_hook([&] {  // as a Finder does, again and again
    if (connecting.connector) connecting.connector->aim_at({loopback(server.port)}, {});
  });
  ASSERT_TRUE(connecting.finish());
  loop.remove_end_hook(hook);
  ASSERT_TRUE(*connecting.result) << connecting.result->error().text();
  EXPECT_EQ((**connecting.result)->peer().port(), server.port);
}

TEST(Connector, GivingUpItNamesWhatCouldNotBeTried) {
  net::EventLoop loop;
  Connecting connecting(loop);
  connecting.start({}, seconds(5), milliseconds(1));
  connecting.connector->aim_at({}, {{"n1:29400", "cannot resolve 'n1'"}});
  ASSERT_TRUE(connecting.finish());
  ASSERT_FALSE(*connecting.result);
  const Error& error = connecting.result->error();
  EXPECT_EQ(error.kind, ErrorKind::kTimeout);
  EXPECT_THAT(error.message, HasSubstr(": n1:29400: cannot resolve 'n1'"));
  EXPECT_EQ(error.hint, "give a name that this node can look up, or an address");
}

// Destroyed at any point it tells nothing more; the sanitizers see to the rest.
TEST(Connector, MayBeDestroyedAtAnyTime) {
  for (int turns = 0; turns < 8; ++turns) {
    net::EventLoop loop;
    Connecting connecting(loop);
    Server server(loop, connecting.token);
    connecting.start({loopback(server.port)});
    for (int i = 0; i < turns; ++i) loop.run_until(Deadline::at(TimePoint::min()));
    bool had = connecting.result.has_value();
    connecting.connector.reset();
    for (int i = 0; i < 8; ++i) loop.run_until(Deadline::at(TimePoint::min()));
    EXPECT_EQ(connecting.result.has_value(), had);
  }
}

}  // namespace
}  // namespace muster::rendezvous
