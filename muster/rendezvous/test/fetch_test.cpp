#include "muster/rendezvous/fetch.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <optional>
#include <thread>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/coordinator.h"
#include "muster/rendezvous/test/munged.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

struct Client final : CoordinatorClient {
  void joined(const Node& /*node*/) override {}
  void gone(const Node& /*node*/, const Loss& /*loss*/) override {}
  void changed(const State& /*state*/, const Decision& /*decision*/) override {}
  void round_started(const State& /*state*/) override {}
  void refused(const std::string& /*who*/, const std::string& /*why*/) override {}
  void worker_failed(const Node& /*node*/, const WorkerFailed& /*failed*/) override {}
  Failure judge(int /*round*/, const std::vector<NodeOutcomes>& /*outcomes*/) override { return {}; }
  std::string ended(const Decision& /*decision*/, const std::vector<NodeOutcomes>& /*outcomes*/) override { return {}; }
  std::string describe(const std::string& name) override {
    return name == "n1" ? std::string(3 << 20, 'd') + "for n1" : std::string();
  }
};

// A coordinator on a thread of its own, until the end of the test.
class Server {
 public:
  Server(const job::Token& token, const std::string& sealed) {
    auto listener = net::listen_tcp({.loopback_only = true});
    address_ = *net::parse_address("127.0.0.1", listener->port);
    thread_ = std::thread([this, token, sealed, fd = std::make_shared<Fd>(std::move(listener->fd))] {
      net::EventLoop loop;
      Client client;
      CoordinatorOptions options;
      options.token = token;
      options.sealed_token = sealed;
      Log log = Log::to_stderr();
      Coordinator coordinator(loop, log, options, client);
      coordinator.listen(std::move(*fd));
      while (!stop_) loop.run_until(Deadline::in(std::chrono::milliseconds(20)));
    });
  }
  ~Server() {
    stop_ = true;
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  const net::Address& address() const { return address_; }

 private:
  net::Address address_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

net::Address nobody() {
  auto listener = net::listen_tcp({.loopback_only = true});
  return *net::parse_address("127.0.0.1", listener->port);  // closed again
}

Deadline soon() { return Deadline::in(std::chrono::seconds(10)); }
Deadline at_once() { return Deadline::in(std::chrono::milliseconds(50)); }

TEST(Fetch, TheSealedTokenIsForWhoeverAsks) {
  const job::Token token = job::Token::random();
  Server server(job::Token::random(), "the envelope");
  std::string seen;
  auto unseal = [&](const std::string& credential) -> Result<job::Token> {
    seen = credential;
    return token;
  };
  auto fetched = fetch_token({nobody(), server.address()}, unseal, soon());
  ASSERT_TRUE(fetched.ok()) << fetched.error().text();
  EXPECT_TRUE(*fetched == token);
  EXPECT_EQ(seen, "the envelope");
}

TEST(Fetch, ByMungeItIsTheLaunchersToken) {
  test::Munged munged('k');
  const Munge munge = munged.client();
  const job::Token token = job::Token::random();
  Server server(token, *munge.seal(token, "this job"));
  auto unseal = [&](const std::string& credential) { return munge.unseal(credential, "this job"); };
  auto fetched = fetch_token({server.address()}, unseal, soon());
  ASSERT_TRUE(fetched.ok()) << fetched.error().text();
  auto description = fetch_description({server.address()}, *fetched, "n1", soon());
  ASSERT_TRUE(description.ok()) << description.error().text();
  EXPECT_TRUE(description->description.ends_with("for n1"));
}

// Somebody else's job may answer on a port that ours might have had.
TEST(Fetch, AnEnvelopeThatDoesNotOpenIsPassedOver) {
  Server other(job::Token::random(), "other"), ours(job::Token::random(), "ours");
  auto unseal = [](const std::string& credential) -> Result<job::Token> {
    if (credential == "ours") return job::Token::derive("a", "b");
    return Error{ErrorKind::kPeer, "not ours", {}};
  };
  EXPECT_TRUE(fetch_token({other.address(), ours.address()}, unseal, soon()).ok());
  // If there is nothing but such ones nothing will change: it does not wait for the deadline.
  const Error error =
      fetch_token({other.address(), other.address()}, unseal, Deadline::in(std::chrono::hours(1))).error();
  EXPECT_EQ(error.kind, ErrorKind::kPeer);
  EXPECT_EQ(error.message, other.address().text() + " not ours");
}

TEST(Fetch, WhatMayPassIsTriedAgain) {
  Server server(job::Token::random(), "envelope");
  int asked = 0;
  auto unseal = [&](const std::string&) -> Result<job::Token> {
    if (++asked < 3) return Error{ErrorKind::kSystem, "munged is not there", {}};
    return job::Token::derive("a", "b");
  };
  EXPECT_TRUE(fetch_token({server.address()}, unseal, soon()).ok());
  EXPECT_EQ(asked, 3);
}

TEST(Fetch, SaysWhatWentWrongWhere) {
  Server without(job::Token::random(), "");
  auto unseal = [](const std::string&) -> Result<job::Token> { return job::Token(); };
  const net::Address refused = nobody();
  const Error error = fetch_token({refused, without.address()}, unseal, at_once()).error();
  EXPECT_EQ(error.kind, ErrorKind::kTimeout);
  EXPECT_THAT(error.message, HasSubstr(refused.text() + ": connect: Connection refused"));
  EXPECT_THAT(error.message, HasSubstr(without.address().text() + ": hands out no token by munge"));
}

bool hangs_up(const Fd& connection, Deadline deadline) {
  pollfd watched{connection.get(), POLLRDHUP, 0};
  return ::poll(&watched, 1, deadline.poll_timeout()) == 1;
}

// An agent may set its node up for minutes, and nobody else tells it that the launcher is gone.
TEST(Fetch, TheConnectionOfADescriptionLastsAsLongAsTheCoordinator) {
  const job::Token token = job::Token::random();
  std::optional<Server> server(std::in_place, token, "");
  auto fetched = fetch_description({server->address()}, token, "n1", soon());
  ASSERT_TRUE(fetched.ok()) << fetched.error().text();
  EXPECT_FALSE(hangs_up(fetched->connection, at_once()));
  server.reset();
  EXPECT_TRUE(hangs_up(fetched->connection, soon()));
}

TEST(Fetch, ADescriptionIsForHoldersOfTheTokenOnly) {
  const job::Token token = job::Token::random();
  Server server(token, "");
  EXPECT_THAT(fetch_description({server.address()}, job::Token::random(), "n1", soon()).error().message,
              HasSubstr("its token differs"));
  EXPECT_EQ(fetch_description({server.address()}, token, "n7", soon()).error().message,
            "the launcher has no host 'n7' in its list");
  EXPECT_FALSE(fetch_description({server.address()}, token, std::string(2000, 'n'), soon()).ok());
}

}  // namespace
}  // namespace muster::rendezvous
