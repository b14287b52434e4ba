#include "muster/launcher/status_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/random.h"
#include "muster/base/socket_directory.h"
#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/member.h"

namespace muster::launcher {
namespace {

// A directory of its own for sockets.
class StatusServerTest : public ::testing::Test {
 protected:
  StatusServerTest() : directory_(std::filesystem::temp_directory_path() / ("status-" + random_uuid())) {
    std::filesystem::create_directory(directory_);
    ::setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  }
  ~StatusServerTest() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(directory_);
  }

  Fd ask(const std::string& job) const {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (directory_ / "muster" / (job + ".sock")).string();
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  std::filesystem::path directory_;
};

TEST_F(StatusServerTest, AnAnswerLargerThanAnySocketArrivesWhole) {
  net::EventLoop loop;
  output::Console console(loop, {});
  job::JobSpec job;
  rendezvous::CoordinatorOptions options;
  options.token = job::Token::random();
  options.membership.min_nodes = options.membership.max_nodes = 2;
  Head head(console, job, options.membership);
  rendezvous::Coordinator coordinator(loop, console.log(), options, head);
  auto listener = net::listen_tcp({});
  ASSERT_TRUE(listener);
  const net::Address address = *net::parse_address("127.0.0.1", listener->port);
  coordinator.listen(std::move(listener->fd));

  rendezvous::Join join;
  join.host = std::string(4 << 20, 'x');  // as long as the names of a large cluster
  bool welcome = false;
  rendezvous::Member::Handlers handlers;
  handlers.told = [&](const rendezvous::Message&) {
    welcome = true;
    loop.stop();
  };
  handlers.refused = handlers.lost = [](const Error& why) { ADD_FAILURE() << why.message; };
  rendezvous::Member member(loop, options.token, {address.text()}, join, Deadline::in(std::chrono::seconds(10)),
                            handlers);
  loop.run_until(Deadline::in(std::chrono::seconds(10)));
  ASSERT_TRUE(welcome);

  auto server = StatusServer::open(loop, console.log(), job, coordinator.engine(), head, "fanout");
  Fd silent = ask(coordinator.engine().options().job);  // never reads, and delays nobody
  Fd reader = ask(coordinator.engine().options().job);
  std::string text, part(1 << 20, '\0');
  loop.watch(reader.get(), EPOLLIN, [&](uint32_t) {
    const ssize_t size = ::recv(reader.get(), part.data(), part.size(), 0);
    if (size <= 0) return loop.stop();
    text.append(part, 0, static_cast<size_t>(size));
  });
  ASSERT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(10))));
  loop.unwatch(reader.get());
  auto document = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(document.is_discarded()) << text.size() << " bytes came";
  EXPECT_EQ(document["nodes"][0]["host"].get<std::string>().size(), join.host.size());
}

rendezvous::NodeId join(rendezvous::State& state, const std::string& host, int position) {
  rendezvous::Join join;
  join.host = host;
  join.position = position;
  return rendezvous::node_joined(Clock::now(), state, join);
}

TEST(ListedNodes, MembersByRankThenSparesAsTheyWereGiven) {
  rendezvous::State state;
  const auto n4 = join(state, "n4", 3), n2 = join(state, "n2", 1), n3 = join(state, "n3", 2), n1 = join(state, "n1", 0);
  rendezvous::round_opened(state, {n1, n2});
  EXPECT_EQ(listed_nodes(state), (std::vector{n1, n2, n3, n4}));
}

std::vector<std::string> hosts_gone(const rendezvous::State& state) {
  std::vector<std::string> hosts;
  for (const rendezvous::Loss& loss : still_gone(state)) hosts.push_back(loss.host);
  return hosts;
}

TEST(StillGone, WhoIsBackIsNotLost) {
  rendezvous::State state;
  rendezvous::MembershipOptions options;
  const auto n1 = join(state, "n1", 0), n2 = join(state, "n2", 1), n20 = join(state, "n20", 2);
  rendezvous::round_opened(state, {n1});
  for (auto node : {n2, n20})
    rendezvous::node_gone(Clock::now(), state, options, node, rendezvous::LinkEnd::kClosed, {});
  join(state, "n2", 1);
  EXPECT_EQ(hosts_gone(state), std::vector<std::string>{"n20"});
}

TEST(StillGone, OneOfTwoOnAMachineIsNotTheOther) {
  rendezvous::State state;
  const auto one = join(state, "n1", 0), other = join(state, "n1", 1);
  rendezvous::round_opened(state, {one, other});
  rendezvous::node_gone(Clock::now(), state, {}, other, rendezvous::LinkEnd::kClosed, {});
  EXPECT_EQ(hosts_gone(state), std::vector<std::string>{"n1"});
}

}  // namespace
}  // namespace muster::launcher
