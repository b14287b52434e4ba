#include "muster/rendezvous/heartbeat.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using test::End;

// A warden's connection, opened on this thread and handed to the server.
struct Warden {
  net::EventLoop& loop;
  End end;
  uint64_t sequence = 0;

  Warden(net::EventLoop& on, HeartbeatServer& server) : loop(on) {
    End accepted;
    auto [one, other] = test::socket_pair();
    accepted.serve(loop, std::move(other), {});
    end.call(loop, std::move(one), {});
    EXPECT_TRUE(test::run_until(loop, [&] { return end.opened == 1 && accepted.opened == 1; }));
    accepted.channel->detach();
    std::vector<std::unique_ptr<Channel>> channels;
    channels.push_back(std::move(accepted.channel));
    server.adopt(std::move(channels));
  }

  Echo beat(NodeId node, int64_t sent) {
    end.messages.clear();
    end.channel->send(encode(Beat{node, ++sequence, sent, false}));
    EXPECT_TRUE(test::run_until(loop, [&] { return !end.messages.empty(); }));
    Result<Message> message = decode(end.messages.at(0));
    EXPECT_TRUE(message);
    Echo echo = std::get<Echo>(*message);
    EXPECT_EQ(echo.sequence, sequence);
    EXPECT_EQ(echo.sent, sent);
    return echo;
  }
};

int64_t nanoseconds(TimePoint time) { return std::chrono::nanoseconds(time.time_since_epoch()).count(); }

TEST(HeartbeatServer, EchoesAndRemembers) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(7);
  EXPECT_FALSE(server.heard(7));
  EXPECT_FALSE(server.clock_offset(7));
  EXPECT_FALSE(server.heard(8));
  Warden warden(loop, server);
  TimePoint before = Clock::now();
  Echo echo = warden.beat(7, 1000);
  EXPECT_TRUE(echo.stands);
  EXPECT_GE(echo.coordinator, nanoseconds(before));
  EXPECT_LE(echo.coordinator, nanoseconds(Clock::now()));
  ASSERT_TRUE(server.heard(7));
  EXPECT_EQ(nanoseconds(*server.heard(7)), echo.coordinator);
}

TEST(HeartbeatServer, TellsANodeThatIsForgotten) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(1);
  Warden warden(loop, server);
  EXPECT_TRUE(warden.beat(1, 0).stands);
  server.forget(1);
  EXPECT_FALSE(warden.beat(1, 0).stands);
  EXPECT_FALSE(warden.beat(2, 0).stands);  // nobody has that number
  EXPECT_FALSE(server.heard(2));
  server.admit(2);
  EXPECT_TRUE(warden.beat(2, 0).stands);
  server.forget(3);
  EXPECT_FALSE(warden.beat(3, 0).stands);
}

// --- news of the connections ----------------------------------------------------------------------------------------

// What the server tells next, once there is something.
std::vector<HeartbeatServer::News> next_news(net::EventLoop& loop, HeartbeatServer& server) {
  loop.watch(server.news_fd(), EPOLLIN, [&](uint32_t) { loop.stop(); });
  EXPECT_TRUE(loop.run_until(Deadline::in(seconds(10))));
  loop.unwatch(server.news_fd());
  return server.take_news();
}

TEST(HeartbeatServer, TellsHowAConnectionEnded) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(1);
  auto warden = std::make_unique<Warden>(loop, server);
  warden->beat(1, 0);
  EXPECT_TRUE(server.take_news().empty());
  warden.reset();
  auto news = next_news(loop, server);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].node, 1U);
  EXPECT_EQ(news[0].end, LinkEnd::kClosed);

  Warden again(loop, server);
  again.beat(1, 0);
  news = next_news(loop, server);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].end, LinkEnd::kNone);

  again.end.channel->send("no beat");
  news = next_news(loop, server);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].end, LinkEnd::kSilent);
}

TEST(HeartbeatServer, TellsAGoodbyeAndNothingAfterIt) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(1);
  server.admit(2);
  auto warden = std::make_unique<Warden>(loop, server);
  warden->beat(1, 0);
  warden->end.channel->send(encode(Goodbye{1}));
  auto news = next_news(loop, server);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].end, LinkEnd::kGoodbye);
  warden.reset();
  Warden other(loop, server);
  other.beat(2, 0);
  EXPECT_TRUE(server.take_news().empty());
}

TEST(HeartbeatServer, TellsNothingOfAConnectionThatWasReplaced) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(1);
  auto old = std::make_unique<Warden>(loop, server);
  old->beat(1, 0);
  Warden warden(loop, server);
  warden.beat(1, 0);
  old.reset();
  for (int i = 0; i < 20; ++i) warden.beat(1, 0);
  EXPECT_TRUE(server.take_news().empty());
}

// No beat is echoed with stands = true that came after what heard() said when the node was forgotten.
TEST(HeartbeatServer, ForgetsBeforeItIsAsked) {
  net::EventLoop loop;
  HeartbeatServer server;
  Warden warden(loop, server);
  for (NodeId node = 1; node <= 200; ++node) {
    server.admit(node);
    warden.end.messages.clear();
    for (int i = 0; i < 20; ++i) warden.end.channel->send(encode(Beat{node, 0, i, false}));
    while (!server.heard(node)) std::this_thread::yield();
    server.forget(node);
    const int64_t heard = nanoseconds(*server.heard(node));
    ASSERT_TRUE(test::run_until(loop, [&] { return warden.end.messages.size() == 20; }));
    for (const std::string& message : warden.end.messages) {
      const Echo echo = std::get<Echo>(*decode(message));
      if (echo.stands) {
        EXPECT_LE(echo.coordinator, heard);
      }
    }
  }
}

TEST(HeartbeatServer, EstimatesTheClockOfANode) {
  net::EventLoop loop;
  HeartbeatServer server;
  server.admit(1);
  Warden warden(loop, server);
  constexpr Duration kAhead = hours(5);
  TimePoint begin = Clock::now();
  warden.beat(1, nanoseconds(Clock::now() + kAhead - seconds(3)));  // was long on its way
  warden.beat(1, nanoseconds(Clock::now() + kAhead));
  warden.beat(1, nanoseconds(Clock::now() + kAhead - seconds(1)));
  Duration offset = *server.clock_offset(1);
  EXPECT_LE(offset, kAhead);
  EXPECT_GE(offset, kAhead - (Clock::now() - begin));
}

TEST(HeartbeatServer, ServesManyAndOutlivesTheirEnds) {
  net::EventLoop loop;
  HeartbeatServer server;
  std::vector<std::unique_ptr<Warden>> wardens;
  wardens.reserve(20);
  for (NodeId node = 0; node < 20; ++node) {
    server.admit(node);
    wardens.push_back(std::make_unique<Warden>(loop, server));
  }
  for (int round = 0; round < 20; ++round)
    for (NodeId node = 0; node < 20; ++node) EXPECT_TRUE(wardens[node]->beat(node, round).stands);
  for (size_t i = 0; i < wardens.size(); i += 2) wardens[i].reset();
  EXPECT_TRUE(wardens[1]->beat(1, 0).stands);
  for (NodeId node = 0; node < 20; ++node) EXPECT_TRUE(server.heard(node));
}

TEST(HeartbeatServer, ClosesOnWhatIsNoBeat) {
  for (const std::string& message : {encode(StopRequest{15}), std::string("garbage"), std::string()}) {
    net::EventLoop loop;
    HeartbeatServer server;
    Warden warden(loop, server);
    warden.end.channel->send(message);
    EXPECT_TRUE(test::run_until(loop, [&] { return !warden.end.closed.empty(); }));
  }
}

TEST(HeartbeatServer, EndsWithConnectionsInEveryState) {
  net::EventLoop loop;
  auto server = std::make_unique<HeartbeatServer>();
  server->admit(1);
  Warden used(loop, *server);
  used.beat(1, 0);
  Warden fresh(loop, *server);
  server.reset();
  EXPECT_TRUE(test::run_until(loop, [&] { return !used.end.closed.empty() && !fresh.end.closed.empty(); }));
}

// The coordinator looks while beats come: what ThreadSanitizer is to see.
TEST(HeartbeatServer, IsReadWhileItWrites) {
  net::EventLoop loop;
  HeartbeatServer server;
  Warden warden(loop, server);
  for (int i = 0; i < 200; ++i) warden.end.channel->send(encode(Beat{static_cast<NodeId>(i % 10), 0, i, false}));
  size_t known = 0;
  EXPECT_TRUE(test::run_until(loop, [&] {
    server.admit(static_cast<NodeId>(known++ % 10));
    for (NodeId node = 0; node < 10; ++node) {
      if (server.heard(node)) server.clock_offset(node);
    }
    server.forget(3);
    return warden.end.messages.size() == 200;
  }));
}

}  // namespace
}  // namespace muster::rendezvous
