#include "muster/agent/uplink.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/agent/test/output_harness.h"
#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/acceptor.h"

namespace muster::agent {
namespace {

using rendezvous::Channel;
using rendezvous::Chunk;

// A launcher that takes output, and can lose the connection.
class UplinkTest : public ::testing::Test {
 protected:
  UplinkTest() {
    rendezvous::AcceptorOptions options;
    options.token = token_;
    acceptor_ = std::make_unique<rendezvous::Acceptor>(
        loop_, log_, options,
        rendezvous::Acceptor::Handlers{.joined = [this](std::unique_ptr<Channel> channel) { take(std::move(channel)); },
                                       .other = {},
                                       .refused = {}});
    auto listener = net::listen_tcp({});
    EXPECT_TRUE(listener);
    launcher_ = *net::parse_address("127.0.0.1", listener->port);
    acceptor_->listen(std::move(listener->fd));
    auto uplink = Uplink::open(loop_);
    EXPECT_TRUE(uplink);
    uplink_ = *std::move(uplink);
    uplink_->connect(launcher_, token_, kNode);
  }

  void take(std::unique_ptr<Channel> channel) {
    ++connections_;
    channel_ = std::move(channel);
    channel_->resume_on(loop_, {.opened = {},
                                .received =
                                    [this](std::string_view bytes) {
                                      auto message = rendezvous::decode(bytes);
                                      ASSERT_TRUE(message);
                                      if (const auto* chunk = std::get_if<Chunk>(&*message)) text_ += chunk->bytes;
                                    },
                                .closed = {},
                                .drained = {}});
  }

  void write(std::string_view line) const {
    ASSERT_EQ(::write(uplink_->stdout_fd(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }

  bool run_until(const std::function<bool()>& met) { return testing::run_until(loop_, met); }

  static constexpr rendezvous::NodeId kNode = 7;
  net::EventLoop loop_;
  Log log_ = Log::to_stderr();
  rendezvous::Token token_ = rendezvous::Token::random();
  net::Address launcher_;
  std::unique_ptr<rendezvous::Acceptor> acceptor_;
  std::unique_ptr<Channel> channel_;
  int connections_ = 0;
  std::string text_;
  std::unique_ptr<Uplink> uplink_;
};

TEST_F(UplinkTest, MakesALostConnectionAnew) {
  int again = 0;
  uplink_->on_reconnected([&] { ++again; });
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  channel_.reset();
  ASSERT_TRUE(run_until([&] { return again == 1; }));
  write("two\n");
  EXPECT_TRUE(run_until([&] { return text_ == "one\ntwo\n"; })) << text_;
  EXPECT_EQ(connections_, 2);
}

TEST_F(UplinkTest, WhenTheJobIsOverALostConnectionIsTheEnd) {
  uplink_->on_reconnected([] { ADD_FAILURE(); });
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  uplink_->job_is_over();
  acceptor_.reset();
  channel_.reset();
  write("two\n");
  EXPECT_TRUE(run_until([&] { return uplink_->idle(); })) << "what nobody reads is dropped";
}

}  // namespace
}  // namespace muster::agent
