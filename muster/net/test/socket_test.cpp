#include "muster/net/socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::net {
namespace {

using namespace std::chrono_literals;

TEST(Socket, ConnectReachesAListener) {
  auto listener = listen_tcp({});
  ASSERT_TRUE(listener) << listener.error().text();
  auto client = connect_tcp("127.0.0.1", listener->port, Deadline::in(5s));
  ASSERT_TRUE(client) << client.error().text();
  pollfd waiting{listener->fd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
  Address peer;
  auto accepted = accept_tcp(listener->fd.get(), &peer);
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(*accepted);
  EXPECT_TRUE(peer.is_loopback());
  EXPECT_EQ(peer.port(), local_address(client->get())->port());
  auto none = accept_tcp(listener->fd.get(), nullptr);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

TEST(Socket, TakenPortNamesItsHolder) {
  auto first = listen_tcp({});
  ASSERT_TRUE(first);
  auto second = listen_tcp({.port = first->port});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kUsage);
  EXPECT_NE(second.error().message.find(fmt::format("port {} is taken by pid {} (", first->port, ::getpid())),
            std::string::npos)
      << second.error().message;
}

TEST(Socket, ConnectGivesUpAtTheDeadline) {
  uint16_t port;
  {
    auto closed = listen_tcp({});
    ASSERT_TRUE(closed);
    port = closed->port;
  }
  auto client = connect_tcp("127.0.0.1", port, Deadline::in(60ms));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, ErrorKind::kTimeout);
}

}  // namespace
}  // namespace muster::net
