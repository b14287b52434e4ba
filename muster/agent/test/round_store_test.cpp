#include "muster/agent/round_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <algorithm>
#include <cerrno>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/net/test/connection.h"

namespace muster::agent {
namespace {

using testing::HasSubstr;

Log silent() {
  return Log([](LogLevel, std::string_view) {});
}

uint16_t port_of(const Fd& socket) { return net::local_address(socket.get())->port(); }

TEST(ReservePort, AServerCanStillListenThere) {
  auto reservation = reserve_port(0);
  ASSERT_TRUE(reservation.ok()) << reservation.error().text();
  auto listener = net::listen_tcp({.port = port_of(*reservation)});
  ASSERT_TRUE(listener.ok()) << listener.error().text();
  EXPECT_EQ(listener->port, port_of(*reservation));
}

TEST(ReservePort, NobodyGetsItByChance) {
  auto reservation = reserve_port(0);
  ASSERT_TRUE(reservation.ok());
  std::vector<Fd> others;  // kept, so that every one is another port
  for (int i = 0; i < 2000; ++i) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    ASSERT_NE(port_of(fd), port_of(*reservation));
    if (others.size() < 500) others.push_back(std::move(fd));
  }
}

TEST(ReservePort, ATakenOneIsNamedWithItsHolder) {
  auto listener = net::listen_tcp({});
  ASSERT_TRUE(listener.ok());
  auto reservation = reserve_port(listener->port);
  ASSERT_FALSE(reservation.ok());
  EXPECT_EQ(reservation.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(reservation.error().message, HasSubstr("is taken by pid"));
}

TEST(RoundStore, AFixedPortCanBeOpenedAgainAndAgain) {
  net::EventLoop loop;
  Log log = silent();
  RoundStore::Options options;
  {
    auto probe = net::listen_tcp({});
    options.port = probe->port;
  }
  for (int round = 0; round < 3; ++round) {
    auto store = RoundStore::open(loop, log, options);
    ASSERT_TRUE(store.ok()) << store.error().text();
    EXPECT_EQ(store->port(), options.port);
    ASSERT_TRUE(net::connect_tcp("127.0.0.1", store->port(), Deadline::in(std::chrono::seconds(5))).ok());
  }
}

TEST(RoundStore, AWorkersStoreIsNotListenedToByUs) {
  net::EventLoop loop;
  Log log = silent();
  RoundStore::Options options;
  options.host = job::StoreHost::kWorker;
  auto store = RoundStore::open(loop, log, options);
  ASSERT_TRUE(store.ok());
  EXPECT_NE(store->port(), 0);
  EXPECT_TRUE(net::listen_tcp({.port = store->port()}).ok());
}

TEST(RoundStore, AWorkersStoreKeepsToTheRange) {
  net::EventLoop loop;
  Log log = silent();
  auto taken = net::listen_tcp({});
  ASSERT_TRUE(taken.ok());
  RoundStore::Options options;
  options.host = job::StoreHost::kWorker;
  options.ports = {taken->port, taken->port};
  auto none = RoundStore::open(loop, log, options);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("every port from"));
  taken->fd.reset();
  auto store = RoundStore::open(loop, log, options);
  ASSERT_TRUE(store.ok()) << store.error().text();
  EXPECT_EQ(store->port(), options.ports.first);
}

TEST(PortsToTry, AreAllOfTheRangeOnce) {
  std::vector<uint16_t> ports = ports_to_try({30000, 30003});
  std::sort(ports.begin(), ports.end());
  EXPECT_EQ(ports, (std::vector<uint16_t>{30000, 30001, 30002, 30003}));
  EXPECT_EQ(ports_to_try({65535, 65535}), std::vector<uint16_t>{65535});
}

TEST(OnlyMembers, LetsInTheirAddressesAndThisUserHere) {
  Log log = silent();
  auto may_come = only_members({"192.0.2.7"}, log);
  auto address = [](const char* host) { return *net::parse_address(host, 1); };
  using store::Admission;
  EXPECT_EQ(may_come(address("192.0.2.7"), address("192.0.2.1")), Admission::kWelcome);
  EXPECT_EQ(may_come(address("::ffff:192.0.2.7"), address("::ffff:192.0.2.1")), Admission::kWelcome);
  EXPECT_EQ(may_come(address("192.0.2.8"), address("192.0.2.1")), Admission::kStranger);
}

TEST(OnlyMembers, AConnectionWithoutAnOwnerIsAStrangersIfTheKernelNamesOwners) {
  int asked = 0;
  Log log = silent();
  auto may_come = only_members({}, log, [&] { return ++asked, true; });
  const net::Address nowhere = *net::parse_address("127.0.0.1", 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(may_come(nowhere, nowhere), store::Admission::kStranger);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(only_members({}, log)(nowhere, nowhere), store::Admission::kStranger) << "this kernel names owners";
}

TEST(OnlyMembers, SaysOnceThatTheKernelNamesNoOwner) {
  std::vector<std::string> said;
  Log log([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said.emplace_back(text);
  });
  auto may_come = only_members({}, log, [] { return false; });
  const net::Address nowhere = *net::parse_address("127.0.0.1", 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(may_come(nowhere, nowhere), store::Admission::kWelcome);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("whose connection 127.0.0.1:1 is"));
}

TEST(OnlyMembers, AMemberIsAskedForItsOwnerIfTheListOfInterfacesCannotBeRead) {
  bool readable = false;
  int said = 0;
  Log log([&](LogLevel, std::string_view) { ++said; });
  const auto is_own = [&](const net::Address&) -> Result<bool> {
    if (readable) return false;
    return system_error(EMFILE, "the list");
  };
  auto may_come = only_members(
      {"192.0.2.7"}, log, [] { return false; }, is_own);
  const net::Address member = *net::parse_address("192.0.2.7", 1), here = *net::parse_address("192.0.2.1", 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(may_come(member, here), store::Admission::kStranger);
  EXPECT_EQ(said, 1);
  readable = true;
  EXPECT_EQ(may_come(member, here), store::Admission::kWelcome) << "nothing was remembered";

  readable = false;
  auto [client, server, peer] = net::test::connect_to_ourselves();
  auto local = net::local_address(server.get());
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(only_members(
                {}, log, [] { return false; }, is_own)(peer, *local),
            store::Admission::kWelcome);
}

TEST(OnlyMembers, KnowsWhoHasHungUp) {
  auto [client, server, peer] = net::test::connect_to_ourselves();
  auto local = net::local_address(server.get());
  ASSERT_TRUE(local.ok());
  Log log = silent();
  EXPECT_EQ(only_members({}, log)(peer, *local), store::Admission::kWelcome);
  client.reset();
  EXPECT_EQ(only_members({}, log)(peer, *local), store::Admission::kGone);
}

}  // namespace
}  // namespace muster::agent
