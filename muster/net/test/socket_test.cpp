#include "muster/net/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "muster/net/interfaces.h"

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

// A port that no process listens on.
Address closed_port() {
  auto listener = listen_tcp({});
  EXPECT_TRUE(listener.ok());
  return parse_address("127.0.0.1", listener->port).value();
}

volatile std::sig_atomic_t waker = -1, alarms = 0;

TEST(WaitFor, GoesOnAfterASignal) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]), writer(ends[1]);
  EXPECT_EQ(wait_for(reader.get(), POLLIN, Deadline::in(0s)), ETIMEDOUT);
  waker = writer.get();
  alarms = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {  // the third one brings what is waited for
    alarms = alarms + 1;
    if (alarms == 3) (void)!::write(waker, "x", 1);
  };
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{.it_interval = {0, 5000}, .it_value = {0, 5000}}, never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  EXPECT_EQ(wait_for(reader.get(), POLLIN, Deadline::in(60s)), 0);
  EXPECT_GE(alarms, 3);
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST(Connect, TellsARefusalAndASuccessFromEachOther) {
  Fd socket;
  EXPECT_EQ(connect_until(closed_port(), Deadline::in(5s), socket), ECONNREFUSED);
  EXPECT_FALSE(socket);
  auto listener = listen_tcp({});
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(connect_until(*parse_address("127.0.0.1", listener->port), Deadline::in(5s), socket), 0);
  EXPECT_TRUE(socket);
}

TEST(Connect, AFamilyThatThereIsNotFailsAtOnce) {
  Fd socket(::dup(STDIN_FILENO));
  EXPECT_EQ(start_connect(Address(), socket), EAFNOSUPPORT);
  EXPECT_FALSE(socket);
}

TEST(Connect, GivesUpAtTheDeadline) {
  auto listener = listen_tcp({});
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(::listen(listener->fd.get(), 0), 0);
  const Address address = *parse_address("127.0.0.1", listener->port);
  Fd first, second;
  ASSERT_EQ(connect_until(address, Deadline::in(5s), first), 0);  // now the queue is full
  EXPECT_EQ(connect_until(address, Deadline::in(50ms), second), ETIMEDOUT);
  EXPECT_FALSE(second);
}

TEST(Connect, ASocketThatIsItsOwnPeerWasRefused) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Address own = *parse_address("127.0.0.1", 0);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.length), 0);
  own = *local_address(socket.get());
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.length), 0);
  EXPECT_EQ(connect_error(socket.get()), ECONNREFUSED);
}

}  // namespace
}  // namespace muster::net
