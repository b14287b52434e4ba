#include "muster/store/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "muster/net/socket.h"
#include "muster/store/test/bytes.h"
#include "muster/store/test/server_thread.h"

namespace muster::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::UnorderedElementsAre;

Deadline soon() { return Deadline::in(seconds(20)); }
Deadline very_soon() { return Deadline::in(milliseconds(30)); }

Client connect(const ServerThread& server) {
  auto client = Client::connect("127.0.0.1", server.port(), soon());
  MUSTER_CHECK(client.ok());
  return *std::move(client);
}

std::vector<std::string> list(std::initializer_list<const char*> keys) { return {keys.begin(), keys.end()}; }

TEST(StoreClient, KeysAndValues) {
  ServerThread server;
  Client client = connect(server);
  ASSERT_TRUE(client.set("k", "v", soon()).ok());
  EXPECT_EQ(*client.get("k", soon()), "v");
  ASSERT_TRUE(client.append("k", "w", soon()).ok());
  EXPECT_EQ(*client.get("k", soon()), "vw");
  EXPECT_EQ(*client.add("n", 5, soon()), 5);
  EXPECT_EQ(*client.add("n", -7, soon()), -2);
  EXPECT_EQ(*client.compare_set("c", "", "d", soon()), "d");
  EXPECT_EQ(*client.compare_set("c", "x", "e", soon()), "d");
  EXPECT_TRUE(*client.check(list({"k", "n"}), soon()));
  EXPECT_FALSE(*client.check(list({"k", "z"}), soon()));
  EXPECT_EQ(*client.num_keys(soon()), 3);
  EXPECT_TRUE(*client.delete_key("c", soon()));
  EXPECT_FALSE(*client.delete_key("c", soon()));
  EXPECT_EQ(*client.add("init/", 1, soon()), 1);
  EXPECT_THAT(*client.list_keys(soon()), UnorderedElementsAre("k", "n"));
  EXPECT_TRUE(client.ping(soon()).ok());
}

TEST(StoreClient, KeysAreThoseOfPyTorch) {
  ServerThread server;
  Client client = connect(server);
  ASSERT_TRUE(client.set("k", "v", soon()).ok());
  ASSERT_TRUE(client.add("init/", 1, soon()).ok());
  ASSERT_TRUE(client.ping(soon()).ok());
  auto fd = net::connect_tcp("127.0.0.1", server.port(), soon());
  ASSERT_TRUE(fd.ok() && set_nonblocking(fd->get(), false).ok());
  std::string request = bytes("00 CE F7 85 3C 05 02.. 02.. '/k' 05.. 'init/'");
  ASSERT_TRUE(write_all(fd->get(), request.data(), request.size()).ok());
  char answer = 1;
  ASSERT_EQ(::recv(fd->get(), &answer, 1, 0), 1);
  EXPECT_EQ(answer, 0);
}

TEST(StoreClient, SeveralAtOnce) {
  ServerThread server;
  Client client = connect(server);
  std::vector<std::pair<std::string, std::string>> pairs = {{"a", "1"}, {"b", ""}};
  ASSERT_TRUE(client.multi_set(pairs, soon()).ok());
  EXPECT_THAT(*client.multi_get(list({"b", "a"}), soon()), ElementsAre("", "1"));
  EXPECT_THAT(*client.multi_get({}, soon()), IsEmpty());
}

TEST(StoreClient, Queues) {
  ServerThread server;
  Client client = connect(server);
  EXPECT_EQ(*client.queue_try_pop("q", soon()), std::nullopt);
  ASSERT_TRUE(client.queue_push("q", "1", soon()).ok());
  ASSERT_TRUE(client.queue_push("q", "", soon()).ok());
  EXPECT_EQ(*client.queue_len("q", soon()), 2);
  EXPECT_EQ(*client.queue_pop("q", soon()), "1");
  EXPECT_THAT(*client.queue_try_pop("q", soon()), Optional(std::string()));
  EXPECT_EQ(client.queue_pop("q", very_soon()).error().kind, ErrorKind::kTimeout);
  std::thread pusher([&] { EXPECT_TRUE(connect(server).queue_push("q", "late", soon()).ok()); });
  EXPECT_EQ(*client.queue_pop("q", soon()), "late");
  pusher.join();
}

TEST(StoreClient, WaitsForAnotherClient) {
  ServerThread server;
  Client client = connect(server);
  std::thread other([&] { EXPECT_TRUE(connect(server).set("k", "v", soon()).ok()); });
  EXPECT_EQ(*client.get("k", soon()), "v");
  other.join();
}

TEST(StoreClient, ATimedOutWaitLeavesTheConnectionUsable) {
  ServerThread server;
  Client client = connect(server);
  for (int i = 0; i < 3; ++i) {
    auto waited = client.wait(list({"k", "z"}), very_soon());
    ASSERT_FALSE(waited.ok());
    EXPECT_EQ(waited.error().kind, ErrorKind::kTimeout);
    EXPECT_THAT(waited.error().message, HasSubstr("timed out while waiting for 'k', 'z'"));
    EXPECT_EQ(client.get("k", very_soon()).error().kind, ErrorKind::kTimeout);
    EXPECT_EQ(client.barrier("b", 100, very_soon()).error().kind, ErrorKind::kTimeout);
  }
  ASSERT_TRUE(client.set("k", "v", soon()).ok());
  EXPECT_EQ(*client.get("k", soon()), "v");
}

TEST(StoreClient, BarrierOfMany) {
  ServerThread server;
  std::vector<std::thread> members;
  constexpr int kMembers = 8;
  members.reserve(kMembers);
  for (int i = 0; i < kMembers; ++i)
    members.emplace_back([&] {
      Client client = connect(server);
      for (int round = 0; round < 20; ++round) {
        std::string key = std::to_string(round);
        EXPECT_TRUE(client.add("arrived/" + key, 1, soon()).ok());
        EXPECT_TRUE(client.barrier(key, kMembers, soon()).ok());
        EXPECT_EQ(*client.add("arrived/" + key, 0, soon()), kMembers);
      }
    });
  for (auto& member : members) member.join();
}

TEST(StoreClient, MisuseIsFoundBeforeAnythingIsSent) {
  ServerThread server;
  Client client = connect(server);
  std::string long_key(Limits::kKey, 'k');
  EXPECT_EQ(client.set(long_key, "", soon()).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(client.set("k", std::string(Limits::kValue + 1, 'v'), soon()).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(client.check(std::vector<std::string>(Limits::kList + 1), soon()).error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(client.set(long_key.substr(1), std::string(Limits::kValue, 'v'), soon()).ok());
  EXPECT_EQ(client.get(long_key.substr(1), soon())->size(), Limits::kValue);
}

TEST(StoreClient, AServerThatEnds) {
  ServerThread server;
  Client client = connect(server);
  server.stop();
  auto added = client.add("n", 1, soon());
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().kind, ErrorKind::kPeer);
  auto again = client.get("n", soon());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kPeer);
  EXPECT_THAT(again.error().message, HasSubstr("unusable since"));
}

// Accepts one connection, answers as told, and hears everything.
class Scripted {
 public:
  explicit Scripted(std::string answers) : answers_(std::move(answers)) {
    auto listener = net::listen_tcp({.loopback_only = true});
    MUSTER_CHECK(listener.ok() && set_nonblocking(listener->fd.get(), false).ok());
    port_ = listener->port;
    thread_ = std::thread([this, fd = std::move(listener->fd)] {
      Fd peer(::accept(fd.get(), nullptr, nullptr));
      EXPECT_TRUE(write_all(peer.get(), answers_.data(), answers_.size()).ok());
      char buffer[256];
      ssize_t got;
      while ((got = ::recv(peer.get(), buffer, sizeof buffer, 0)) > 0) heard_.append(buffer, static_cast<size_t>(got));
    });
  }
  // Ends when the client has closed.
  std::string heard() {
    thread_.join();
    return heard_;
  }
  uint16_t port() const { return port_; }

 private:
  std::string answers_;
  std::string heard_;
  uint16_t port_ = 0;
  std::thread thread_;
};

std::string own_pid() {
  std::string nonce;
  put_u32(nonce, static_cast<uint32_t>(::getpid()));
  return nonce;
}

TEST(StoreClient, OpensAsPyTorchDoes) {
  Scripted server(own_pid());
  EXPECT_TRUE(Client::connect("127.0.0.1", server.port(), soon()).ok());
  EXPECT_EQ(server.heard(), bytes("00 CE F7 85 3C 0D") + own_pid());
}

TEST(StoreClient, AReleaseThatCrossesItsCancellation) {
  // The wait's answer is not there in time; then the server's 0, sent before it knew, and its 1.
  auto listener = net::listen_tcp({.loopback_only = true});
  ASSERT_TRUE(listener.ok() && set_nonblocking(listener->fd.get(), false).ok());
  std::thread server([fd = std::move(listener->fd)] {
    Fd peer(::accept(fd.get(), nullptr, nullptr));
    auto hear = [&](size_t size) {
      std::string data(size, '\0');
      EXPECT_EQ(::recv(peer.get(), data.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
      return data;
    };
    auto say = [&](const std::string& data) { EXPECT_TRUE(write_all(peer.get(), data.data(), data.size()).ok()); };
    EXPECT_EQ(hear(10).substr(5, 1), bytes("0D"));
    say(own_pid());
    EXPECT_EQ(hear(19), bytes("06 01.. 02.. '/k'"));
    EXPECT_EQ(hear(1), bytes("0C"));
    say(bytes("00 01"));
    EXPECT_EQ(hear(1), bytes("07"));
    say(bytes("05.."));
  });
  auto client = Client::connect("127.0.0.1", listener->port, soon());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->wait(list({"k"}), very_soon()).error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(*client->num_keys(soon()), 5);
  server.join();
}

TEST(StoreClient, AServerThatBreaksTheProtocol) {
  Scripted wrong_nonce(bytes("00 00 00 00"));
  EXPECT_EQ(Client::connect("127.0.0.1", wrong_nonce.port(), soon()).error().kind, ErrorKind::kPeer);
  wrong_nonce.heard();

  Scripted huge(own_pid() + bytes("02.. FF FF FF FF FF FF FF FF"));
  {
    auto client = Client::connect("127.0.0.1", huge.port(), soon());
    ASSERT_TRUE(client.ok());
    EXPECT_EQ(client->queue_try_pop("q", soon()).error().kind, ErrorKind::kPeer);
  }
  huge.heard();
}

TEST(StoreClient, AServerThatSaysNothing) {
  Scripted silent("");
  auto client = Client::connect("127.0.0.1", silent.port(), very_soon());
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().kind, ErrorKind::kTimeout);
  silent.heard();
}

}  // namespace
}  // namespace muster::store
