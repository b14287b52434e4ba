#include "muster/agent/reach.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"

namespace muster::agent {
namespace {

constexpr auto kEach = std::chrono::milliseconds(50);

Result<std::string> reach(std::vector<std::string> addresses, uint16_t port, net::EventLoop& loop) {
  std::optional<Result<std::string>> answer;
  auto done = [&](Result<std::string> address) {
    answer = std::move(address);
    loop.stop();
  };
  Reach reach(loop, std::move(addresses), port, done, kEach);
  EXPECT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(20))));
  return answer.value_or(Error{ErrorKind::kTimeout, "no answer at all", {}});
}

TEST(Reach, TakesTheFirstThatAnswers) {
  auto listener = net::listen_tcp({});
  ASSERT_TRUE(listener.ok());
  net::EventLoop loop;
  auto found = reach({"not an address", "127.0.0.1", "127.0.0.2"}, listener->port, loop);
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
  net::EventLoop loop;
  auto found = reach({"127.0.0.1", "127.0.0.2"}, free_port, loop);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message, fmt::format("127.0.0.1 port {0}: Connection refused; 127.0.0.2 port {0}: "
                                               "Connection refused",
                                               free_port));
}

// A listener that does not answer: who comes next is not let in before somebody is taken out.
class FullListener {
 public:
  FullListener() : listener_(*net::listen_tcp({})) {
    EXPECT_EQ(::listen(listener_.fd.get(), 0), 0);
    auto address = net::parse_address("127.0.0.1", port());
    EXPECT_EQ(::connect(first_.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->length), 0);
  }
  uint16_t port() const { return listener_.port; }
  void make_room() { EXPECT_TRUE(Fd(::accept(listener_.fd.get(), nullptr, nullptr))); }

 private:
  net::Listener listener_;
  Fd first_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST(Reach, TriesAgainWhoDoesNotAnswer) {
  FullListener listener;
  net::EventLoop loop;
  loop.call_after(kEach * 5 / 2, [&] { listener.make_room(); });  // two tries are over, two are left
  auto found = reach({"127.0.0.1"}, listener.port(), loop);
  EXPECT_TRUE(found.ok()) << found.error().text();
}

TEST(Reach, GivesUpOnWhoNeverAnswers) {
  FullListener listener;
  net::EventLoop loop;
  auto found = reach({"not an address", "127.0.0.1"}, listener.port(), loop);
  ASSERT_FALSE(found.ok());
  EXPECT_TRUE(found.error().message.ends_with(fmt::format("; 127.0.0.1 port {}: no answer", listener.port())))
      << found.error().message;
}

}  // namespace
}  // namespace muster::agent
