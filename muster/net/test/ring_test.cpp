#include "muster/net/ring.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "muster/base/fd.h"

namespace muster::net {
namespace {

using std::chrono::seconds;

struct Pair {
  Pair() {
    std::array<int, 2> fds;
    MUSTER_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(far.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  std::string received() const {
    std::string text(1024, '\0');
    ssize_t size = ::recv(far.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
  Fd near;
  Fd far;
};

// A loop with a ring, which stops when what it waits for has come.
class RingTest : public testing::Test, public Ring::Sink {
 protected:
  void SetUp() override {
    if (!ring_) GTEST_SKIP() << "the kernel has no io_uring for us";
  }
  bool ring_received(uint64_t id, int result, std::string_view bytes, bool more) override {
    texts_[id] += bytes;
    bytes_ += bytes.size();
    if (result <= 0) ends_[id] = result;
    if (!more && (result > 0 || result == -ENOBUFS)) ring_->receive(sockets_[id], id);
    if (bytes_ >= wanted_bytes_ && ends_.size() >= wanted_ends_) loop_.stop();
    return awaited_;
  }
  void ring_sent(std::span<const ptrdiff_t> results) override { sent_.assign(results.begin(), results.end()); }

  void receive(const Pair& pair, uint64_t id) {
    sockets_[id] = pair.near.get();
    ring_->receive(pair.near.get(), id);
  }
  bool run(size_t bytes, size_t ends = 0) {
    wanted_bytes_ = bytes;
    wanted_ends_ = ends;
    return loop_.run_until(Deadline::in(seconds(10)));
  }

  EventLoop loop_;
  std::unique_ptr<Ring> ring_ = Ring::open(loop_, *this);
  std::map<uint64_t, int> sockets_;
  std::map<uint64_t, std::string> texts_;
  std::map<uint64_t, int> ends_;
  std::vector<ptrdiff_t> sent_;
  size_t bytes_ = 0;
  size_t wanted_bytes_ = 0;
  size_t wanted_ends_ = 0;
  bool awaited_ = false;  // an answer, by those who send
};

// More sockets than the queue and the buffers hold.
TEST_F(RingTest, EverybodyGetsHisOwn) {
  std::vector<Pair> pairs(600);
  std::vector<std::string> texts;
  size_t size = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    texts.push_back("message " + std::to_string(i));
    size += texts.back().size();
    receive(pairs[i], i);
    pairs[i].send(texts[i]);
  }
  for (size_t i = 0; i < pairs.size(); ++i) ring_->send(pairs[i].near.get(), texts[i].data(), texts[i].size());
  ASSERT_TRUE(run(size));
  ASSERT_EQ(sent_.size(), pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(texts_[i], texts[i]);
    EXPECT_EQ(sent_[i], static_cast<ptrdiff_t>(texts[i].size()));
    EXPECT_EQ(pairs[i].received(), texts[i]);
  }
}

TEST_F(RingTest, MuchFromOneKeepsItsOrder) {
  Pair pair;
  receive(pair, 7);
  std::string much;
  for (int i = 0; much.size() < (8 << 20); ++i) much += std::to_string(i) + ' ';
  size_t at = 0;
  loop_.watch(pair.far.get(), EPOLLOUT, [&](uint32_t) {
    ssize_t size = ::send(pair.far.get(), much.data() + at, much.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size > 0) at += static_cast<size_t>(size);
    if (at == much.size()) loop_.unwatch(pair.far.get());
  });
  ASSERT_TRUE(run(much.size()));
  EXPECT_TRUE(texts_[7] == much);
}

// One message a turn and no answer, which is what the ring looks at seldom; then with answers that somebody waits for.
TEST_F(RingTest, ManySmallMessagesWithoutAnAnswerAllCome) {
  Pair pair;
  receive(pair, 7);
  constexpr size_t kMessages = 20;
  size_t left = 0;
  loop_.add_end_hook([&] {
    if (left > 0) pair.send(std::to_string(left-- % 10));
  });
  for (bool awaited : {false, true}) {
    awaited_ = awaited;
    left = kMessages;
    pair.send("x");
    ASSERT_TRUE(run(bytes_ + kMessages + 1));
  }
  EXPECT_EQ(texts_[7], "x09876543210987654321x09876543210987654321");
}

TEST_F(RingTest, EachSendHasItsOwnResult) {
  std::vector<Pair> pairs(3);
  pairs[0].far.reset();
  std::string much(16 << 20, 'x');
  auto send_all = [&] {
    ring_->send(pairs[0].near.get(), "a", 1);
    ring_->send(pairs[1].near.get(), much.data(), much.size());
    ring_->send(pairs[2].near.get(), "c", 1);
    loop_.run_until(Deadline::at(TimePoint::min()));
    ASSERT_EQ(sent_.size(), 3U);
  };
  send_all();
  EXPECT_EQ(sent_[0], -EPIPE);
  EXPECT_GT(sent_[1], 0);
  EXPECT_LT(sent_[1], static_cast<ptrdiff_t>(much.size()));
  EXPECT_EQ(sent_[2], 1);
  send_all();
  EXPECT_EQ(sent_[1], -EAGAIN);
}

TEST_F(RingTest, WhatIsBegunWhenTheLoopStopsIsSent) {
  Pair pair;
  loop_.add_end_hook([&] { ring_->send(pair.near.get(), "last words", 10); });
  loop_.call_after(Duration(0), [&] { loop_.stop(); });
  ASSERT_TRUE(run(0));
  EXPECT_EQ(pair.received(), "last words");
  EXPECT_EQ(sent_, std::vector<ptrdiff_t>{10});
}

TEST_F(RingTest, TheEndOfAStreamAndAStop) {
  std::vector<Pair> pairs(2);
  receive(pairs[0], 0);
  receive(pairs[1], 1);
  pairs[0].far.reset();
  ring_->stop(1);
  ASSERT_TRUE(run(0, 2));
  EXPECT_EQ(ends_, (std::map<uint64_t, int>{{0, 0}, {1, -ECANCELED}}));
  pairs[1].send("still open");
  receive(pairs[1], 1);
  ends_.clear();
  ASSERT_TRUE(run(10));
  EXPECT_EQ(texts_[1], "still open");
}

// A closed descriptor's peer sees the end only once the ring has let go of it.
TEST_F(RingTest, ASocketThatIsStoppedAndClosedIsGone) {
  Pair pair;
  receive(pair, 0);
  loop_.run_until(Deadline::at(TimePoint::min()));
  ring_->stop(0);
  ring_->submit();
  pair.near.reset();
  ASSERT_TRUE(run(0, 1));
  char byte;
  EXPECT_EQ(::recv(pair.far.get(), &byte, 1, 0), 0);
}

TEST_F(RingTest, DescriptorsAndTimersOfTheLoopGoOn) {
  Pair pair;
  Pair other;
  receive(pair, 0);
  std::string watched;
  loop_.watch(other.near.get(), EPOLLIN, [&](uint32_t) {
    char byte;
    if (::recv(other.near.get(), &byte, 1, MSG_DONTWAIT) == 1) watched += byte;
    if (watched.size() == 3) loop_.stop();
  });
  loop_.call_after(std::chrono::milliseconds(1), [&] { other.send("abc"); });
  wanted_bytes_ = 1;
  ASSERT_TRUE(loop_.run_until(Deadline::in(seconds(10))));
  EXPECT_EQ(watched, "abc");
}

TEST_F(RingTest, ALoopHasOne) {
  EXPECT_EQ(Ring::open(loop_, *this), nullptr);
  ring_.reset();
  EXPECT_NE(Ring::open(loop_, *this), nullptr);
}

}  // namespace
}  // namespace muster::net
