#include "muster/output/uplink.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/output/console.h"
#include "muster/output/receiver.h"
#include "muster/output/test/output_harness.h"
#include "muster/rendezvous/acceptor.h"

namespace muster::output {
namespace {

using rendezvous::Channel;
using rendezvous::Chunk;

// A launcher that takes output, and can lose the connection.
class UplinkTest : public ::testing::Test {
 protected:
  UplinkTest() {
    auto listener = net::listen_tcp({});
    EXPECT_TRUE(listener);
    launcher_ = *net::parse_address("127.0.0.1", listener->port);
    accept_on(std::move(listener->fd));
    receiver_.expect(kNode, "n7");
  }

  void accept_on(Fd listener) {
    rendezvous::AcceptorOptions options;
    options.token = token_;
    acceptor_ = std::make_unique<rendezvous::Acceptor>(
        loop_, log_, options,
        rendezvous::Acceptor::Handlers{.joined = [this](std::unique_ptr<Channel> channel) { take(std::move(channel)); },
                                       .other = {},
                                       .refused = {}});
    acceptor_->listen(std::move(listener));
  }

  void take(std::unique_ptr<Channel> channel) {
    ++connections_;
    channel_ = channel.get();
    receiver_.accept(std::move(channel));
  }

  void connect() { uplink_.connect(launcher_, token_, kNode, patience_); }
  void lose_connection() const { ::shutdown(channel_->share_socket().get(), SHUT_RDWR); }

  void reset_connection() const {
    const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
    ASSERT_EQ(::connect(channel_->share_socket().get(), &nowhere, sizeof nowhere), 0);
  }

  void write(std::string_view line) { console_.write(job::Stream::kStdout, line); }

  bool run_until(const std::function<bool()>& met) { return testing::run_until(loop_, met); }

  static constexpr rendezvous::NodeId kNode = 7;
  net::EventLoop loop_;
  Log log_ = Log::to_stderr();
  job::Token token_ = job::Token::random();
  net::Address launcher_;
  std::unique_ptr<rendezvous::Acceptor> acceptor_;
  std::string text_;
  bool has_room_ = true;
  Receiver receiver_{loop_,
                     [this](const std::string&, const Chunk& chunk) {
                       text_ += chunk.bytes;
                       return has_room_;
                     },
                     [] {}};
  Channel* channel_ = nullptr;
  int connections_ = 0;
  Duration patience_ = std::chrono::seconds(10);
  Uplink uplink_{loop_};
  Console console_{loop_, {.outlets = uplink_.outlets()}};
};

TEST_F(UplinkTest, MakesALostConnectionAnew) {
  connect();
  int again = 0;
  uplink_.on_reconnected([&] { ++again; });
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  lose_connection();
  ASSERT_TRUE(run_until([&] { return again == 1; }));
  write("two\n");
  EXPECT_TRUE(run_until([&] { return text_ == "one\ntwo\n"; })) << text_;
  EXPECT_GE(connections_, 2);
}

TEST_F(UplinkTest, ConnectsForAsLongAsTheJobRuns) {
  constexpr auto kConnectTime = std::chrono::milliseconds(100);
  const net::Address any = *net::parse_address("127.0.0.1", 0);
  Fd closed_port(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::bind(closed_port.get(), reinterpret_cast<const sockaddr*>(&any.storage), any.length), 0);
  launcher_ = *net::local_address(closed_port.get());
  testing::Pipe said = testing::make_pipe();
  Fd stderr_fd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(said.write.get(), STDERR_FILENO);
  uplink_.connect(launcher_, token_, kNode, patience_, kConnectTime);
  write("one\n");
  std::string warning;
  EXPECT_TRUE(run_until([&] { return (warning += testing::read_available(said.read.get())).ends_with('\n'); }));
  const TimePoint later = Clock::now() + 4 * kConnectTime;
  EXPECT_TRUE(run_until([&] { return Clock::now() >= later; }));
  ::dup2(stderr_fd.get(), STDERR_FILENO);
  warning += testing::read_available(said.read.get());
  EXPECT_TRUE(warning.starts_with("muster: warning: cannot connect to the launcher to send output: ")) << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  ASSERT_EQ(::listen(closed_port.get(), 1), 0);
  accept_on(std::move(closed_port));
  EXPECT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
}

TEST_F(UplinkTest, WhatAStuckConnectionSwallowedIsSentAgain) {
  patience_ = std::chrono::milliseconds(300);
  connect();
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  channel_->pause(true);  // as if packets were dropped
  write("two\n");
  uplink_.job_is_over();
  EXPECT_TRUE(run_until([&] { return text_ == "one\ntwo\n"; })) << text_;
  EXPECT_GE(connections_, 2);
}

TEST_F(UplinkTest, ASlowReaderIsNotAStuckConnection) {
  patience_ = 6 * rendezvous::kOutputPulse;
  connect();
  has_room_ = false;
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  uplink_.end();
  const TimePoint later = Clock::now() + patience_ + 2 * rendezvous::kOutputPulse;
  ASSERT_TRUE(run_until([&] { return Clock::now() >= later; }));
  EXPECT_EQ(connections_, 1);
  EXPECT_FALSE(uplink_.idle());
  receiver_.room();
  EXPECT_TRUE(run_until([&] { return uplink_.idle(); }));
  EXPECT_TRUE(receiver_.unfinished().empty());
}

TEST_F(UplinkTest, WhatExceedsTheWindowIsSpooledAndComesOnce) {
  constexpr size_t kMargin = 1 << 20;
  connect();
  has_room_ = false;
  std::string written;
  for (int i = 0; written.size() < 2 * rendezvous::kOutputWindow; ++i) {
    const std::string line = fmt::format("{:8} {:0>990}\n", i, "");
    write(line);
    written += line;
  }
  ASSERT_TRUE(run_until([&] { return text_.size() + kMargin >= rendezvous::kOutputWindow; })) << text_.size();
  for (int i = 0; i < 100; ++i) loop_.run_until(Deadline::in(std::chrono::milliseconds(1)));
  EXPECT_LT(text_.size(), rendezvous::kOutputWindow + kMargin) << "more than the window, and nothing was acknowledged";
  has_room_ = true;
  receiver_.room();
  ASSERT_TRUE(run_until([&] { return text_.size() > rendezvous::kOutputWindow + kMargin; })) << text_.size();
  lose_connection();
  ASSERT_TRUE(run_until([&] { return text_.size() >= written.size(); })) << text_.size();
  EXPECT_TRUE(text_ == written);
  EXPECT_GE(connections_, 2);
}

TEST_F(UplinkTest, AResetIsNotTheEndEvenIfTheJobIsOver) {
  connect();
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  uplink_.job_is_over();
  reset_connection();
  write("two\n");
  EXPECT_TRUE(run_until([&] { return text_ == "one\ntwo\n"; })) << text_;
}

TEST_F(UplinkTest, WhenTheJobIsOverALostConnectionIsTheEnd) {
  connect();
  uplink_.on_reconnected([] { ADD_FAILURE(); });
  write("one\n");
  ASSERT_TRUE(run_until([&] { return text_ == "one\n"; })) << text_;
  uplink_.job_is_over();
  acceptor_.reset();
  lose_connection();
  write("two\n");
  EXPECT_TRUE(run_until([&] { return uplink_.idle(); })) << "what nobody reads is dropped";
}

}  // namespace
}  // namespace muster::output
