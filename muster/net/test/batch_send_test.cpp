#include "muster/net/batch_send.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "muster/base/fd.h"

namespace muster::net {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> fds;
    MUSTER_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  std::string received() const {
    std::string text(1024, '\0');
    ssize_t size = ::recv(far.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
  Fd near;
  Fd far;
};

class BatchSend : public testing::TestWithParam<size_t> {};

TEST_P(BatchSend, EverybodyGetsHisOwn) {
  std::vector<Pair> pairs(GetParam());
  std::vector<std::string> texts;
  for (size_t i = 0; i < pairs.size(); ++i) texts.push_back("message " + std::to_string(i));
  BatchSender sender;
  for (int round = 0; round < 3; ++round) {
    std::vector<BatchSender::Item> items;
    for (size_t i = 0; i < pairs.size(); ++i) items.push_back({pairs[i].near.get(), texts[i].data(), texts[i].size()});
    sender.send(items);
    for (size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(items[i].result, static_cast<ptrdiff_t>(texts[i].size()));
      EXPECT_EQ(pairs[i].received(), texts[i]);
    }
  }
}

// None, one, some, and more than one call takes.
INSTANTIATE_TEST_SUITE_P(Sizes, BatchSend, testing::Values(0, 1, 2, 300));

TEST(BatchSendErrors, EachItemHasItsOwnResult) {
  std::vector<Pair> pairs(3);
  pairs[0].far.reset();
  std::string much(16 << 20, 'x');
  BatchSender sender;
  std::vector<BatchSender::Item> items = {
      {pairs[0].near.get(), "a", 1}, {pairs[1].near.get(), much.data(), much.size()}, {pairs[2].near.get(), "c", 1}};
  sender.send(items);
  EXPECT_EQ(items[0].result, -EPIPE);
  EXPECT_GT(items[1].result, 0);
  EXPECT_LT(items[1].result, static_cast<ptrdiff_t>(much.size()));
  EXPECT_EQ(items[2].result, 1);
  sender.send(items);
  EXPECT_EQ(items[1].result, -EAGAIN);
}

}  // namespace
}  // namespace muster::net
