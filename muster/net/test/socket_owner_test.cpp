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

}  // namespace
}  // namespace muster::net
