#include "muster/net/socket_owner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/net/test/connection.h"

namespace muster::net {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

Fd accept_one(int listener, Address* peer) {
  const Deadline deadline = Deadline::in(kPatience);
  while (!deadline.passed()) {
    auto accepted = accept_tcp(listener, peer);
    if (accepted && *accepted) return *std::move(accepted);
    ::usleep(1000);
  }
  return {};
}

std::optional<uid_t> owner_of_connection(const std::string& host) {
  const auto [client, server, peer] = test::connect_to_ourselves(host);
  auto local = local_address(server.get());
  EXPECT_TRUE(local.ok());
  return connection_owner(peer, *local);
}

TEST(ConnectionOwner, IsUsForOurOwn) { EXPECT_EQ(owner_of_connection("127.0.0.1"), ::getuid()); }

TEST(ConnectionOwner, IsSomebodyElseForHis) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give it up";
  constexpr uid_t kNobody = 65534;
  auto listener = listen_tcp({});
  ASSERT_TRUE(listener.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(1);
    auto client = connect_tcp("127.0.0.1", listener->port, Deadline::in(kPatience));
    ::pause();
    ::_exit(client ? 0 : 1);
  }
  Address peer;
  Fd server = accept_one(listener->fd.get(), &peer);
  EXPECT_EQ(connection_owner(peer, *local_address(server.get())), kNobody);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ConnectionOwner, IsNobodyOnceItIsClosed) {
  auto listener = listen_tcp({});
  ASSERT_TRUE(listener.ok());
  auto client = connect_tcp("127.0.0.1", listener->port, Deadline::in(kPatience));
  ASSERT_TRUE(client.ok());
  client->reset();
  Address peer;
  Fd server = accept_one(listener->fd.get(), &peer);
  EXPECT_EQ(connection_owner(peer, *local_address(server.get())), kNoOwner);
}

TEST(ConnectionOwner, IsNobodyWhereThereIsNoConnection) {
  EXPECT_EQ(connection_owner(*parse_address("127.0.0.1", 1), *parse_address("127.0.0.1", 2)), std::nullopt);
}

TEST(ConnectionOwner, IsKnownOnThisKernel) { EXPECT_TRUE(owners_are_known()); }

TEST(ConnectionOwner, IsInTheTablesOfProcToo) {
  const auto [client, server, peer] = test::connect_to_ourselves();
  EXPECT_EQ(owner_in_tables(peer, *local_address(server.get())), ::getuid());
  EXPECT_EQ(owner_in_tables(peer, peer), std::nullopt);
}

TEST(OwnerInTable, IsThatOfTheLineOfBothAddresses) {
  const auto address = [](const char* host, uint16_t port) { return *parse_address(host, port); };
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 536 1 0 20 4 0 10\n"
      "   1: 0100007F:1F91 0100007F:0050 06 00000000:00000000 03:00000E70 00000000     0        0 0 3 0\n";
  EXPECT_EQ(owner_in_table(kTable, address("127.0.0.1", 8080), address("127.0.0.1", 80)), 1000);
  EXPECT_EQ(owner_in_table(kTable, address("::ffff:127.0.0.1", 8080), address("::ffff:127.0.0.1", 80)), 1000);
  EXPECT_EQ(owner_in_table(kTable, address("127.0.0.1", 8081), address("127.0.0.1", 80)), kNoOwner) << "no inode";
  EXPECT_EQ(owner_in_table(kTable, address("127.0.0.1", 80), address("127.0.0.1", 8080)), std::nullopt);
  const size_t half = kTable.find("1000");
  EXPECT_EQ(owner_in_table(kTable.substr(0, half), address("127.0.0.1", 8080), address("127.0.0.1", 80)), std::nullopt);

  constexpr std::string_view kWide =
      "   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:0050 01 00000000:00000000 "
      "00:00000000 00000000  1000        0 9 1\n"
      "   1: B80D0120000000000000000001000000:1F90 B80D0120000000000000000002000000:0050 01 00000000:00000000 "
      "00:00000000 00000000  1001        0 9 1\n";
  EXPECT_EQ(owner_in_table(kWide, address("127.0.0.1", 8080), address("127.0.0.1", 80)), 1000);
  EXPECT_EQ(owner_in_table(kWide, address("2001:db8::1", 8080), address("2001:db8::2", 80)), 1001);
}

}  // namespace
}  // namespace muster::net
