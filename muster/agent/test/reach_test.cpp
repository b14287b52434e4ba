#include "muster/agent/reach.h"

#include <gtest/gtest.h>

#include <optional>

#include "muster/net/socket.h"

namespace muster::agent {
namespace {

Result<std::string> reach(std::vector<std::string> addresses, uint16_t port) {
  net::EventLoop loop;
  std::optional<Result<std::string>> answer;
  Reach reach(loop, std::move(addresses), port, [&](Result<std::string> address) {
    answer = std::move(address);
    loop.stop();
  });
  EXPECT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(20))));
  return answer.value_or(Error{ErrorKind::kTimeout, "no answer at all", {}});
}

TEST(Reach, TakesTheFirstThatAnswers) {
  auto listener = net::listen_tcp({});
  ASSERT_TRUE(listener.ok());
  auto found = reach({"not an address", "127.0.0.1", "127.0.0.2"}, listener->port);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(*found, "127.0.0.1");
}

TEST(Reach, SaysWhatBecameOfEach) {
  uint16_t free_port = 0;
  {
    auto listener = net::listen_tcp({});
    ASSERT_TRUE(listener.ok());
    free_port = listener->port;
  }
  auto found = reach({"127.0.0.1", "127.0.0.2"}, free_port);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message, fmt::format("127.0.0.1 port {0}: Connection refused; 127.0.0.2 port {0}: "
                                               "Connection refused",
                                               free_port));
}

}  // namespace
}  // namespace muster::agent
