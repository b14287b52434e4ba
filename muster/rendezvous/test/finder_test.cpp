#include "muster/rendezvous/finder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <future>
#include <mutex>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::End;
using test::run_until;
using testing::HasSubstr;

// A resolver whose names the test sets; asked by the threads of look-ups, which may outlive the test.
class Names {
 public:
  void set(const std::string& name, const std::string& address) {
    std::lock_guard lock(shared_->mutex);
    shared_->addresses[name] = address;
  }
  int asked() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->asked;
  }
  net::Resolver resolver() const {
    return [shared = shared_](const std::string& name) -> Result<std::vector<net::Address>> {
      std::lock_guard lock(shared->mutex);
      ++shared->asked;
      auto found = shared->addresses.find(name);
      if (found != shared->addresses.end()) return std::vector{*net::parse_address(found->second, 0)};
      return Error{ErrorKind::kPeer, fmt::format("cannot resolve '{}'", name), {}};
    };
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::map<std::string, std::string> addresses;
    int asked = 0;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

struct Finding {
  net::EventLoop loop;
  job::Token token = job::Token::random();
  std::optional<Result<std::unique_ptr<Channel>>> result;
  std::unique_ptr<Finder> finder;

  // Whoever connects is let in.
  Fd listener;
  uint16_t port = 0;
  std::vector<std::unique_ptr<End>> ends;

  Finding() {
    auto listening = net::listen_tcp({.port = 0, .loopback_only = true});
    EXPECT_TRUE(listening) << listening.error().text();
    listener = std::move(listening->fd);
    port = listening->port;
    loop.watch(listener.get(), EPOLLIN, [this](uint32_t) {
      auto socket = net::accept_tcp(listener.get(), nullptr);
      ASSERT_TRUE(socket && *socket);
      ends.push_back(std::make_unique<End>());
      ends.back()->serve(loop, std::move(*socket), options());
    });
  }

  Channel::Options options() const {
    Channel::Options options;
    options.token = token;
    return options;
  }
  void start(const std::vector<std::string>& endpoints, const net::Resolver& resolver, Duration all = seconds(20)) {
    finder = std::make_unique<Finder>(
        loop, endpoints, options(), seconds(5), Deadline::in(all),
        [this](Result<std::unique_ptr<Channel>> outcome) {
          result.emplace(std::move(outcome));
          finder.reset();
        },
        Finder::Questions{.resolver = resolver, .unknown = milliseconds(10), .known = milliseconds(10)});
  }
  bool finish() {
    return run_until(loop, [&] { return result.has_value(); });
  }
};

TEST(Finder, AnAddressIsNotLookedUp) {
  Finding finding;
  const Names names;
  finding.start({fmt::format("127.0.0.1:{}", finding.port)}, names.resolver());
  ASSERT_TRUE(finding.finish());
  EXPECT_TRUE(*finding.result) << finding.result->error().text();
  EXPECT_EQ(names.asked(), 0);
}

TEST(Finder, LooksANameUp) {
  Finding finding;
  Names names;
  names.set("n1", "127.0.0.1");
  finding.start({fmt::format("n1:{}", finding.port)}, names.resolver());
  ASSERT_TRUE(finding.finish());
  ASSERT_TRUE(*finding.result) << finding.result->error().text();
  EXPECT_EQ((**finding.result)->peer().port(), finding.port);
  EXPECT_EQ(names.asked(), 1);
}

TEST(Finder, WaitsForANameToAppear) {
  Finding finding;
  Names names;
  finding.start({fmt::format("n1:{}", finding.port)}, names.resolver());
  ASSERT_TRUE(run_until(finding.loop, [&] { return finding.finder->telling_failure() == "cannot resolve 'n1'"; }));
  EXPECT_FALSE(finding.result);
  names.set("n1", "127.0.0.1");
  ASSERT_TRUE(finding.finish());
  EXPECT_TRUE(*finding.result) << finding.result->error().text();
}

// Nobody listens at 127.0.0.2, where it was before.
TEST(Finder, FollowsANameThatMoves) {
  Finding finding;
  Names names;
  names.set("n1", "127.0.0.2");
  finding.start({fmt::format("n1:{}", finding.port)}, names.resolver());
  ASSERT_TRUE(run_until(finding.loop, [&] {
    return finding.finder->telling_failure() == fmt::format("127.0.0.2:{}: connection refused", finding.port);
  }));
  names.set("n1", "127.0.0.1");
  ASSERT_TRUE(finding.finish());
  EXPECT_TRUE(*finding.result) << finding.result->error().text();
}

TEST(Finder, ANameThatNeverAppearsIsNamedAtTheDeadline) {
  Finding finding;
  finding.start({"n1:29400"}, Names().resolver(), milliseconds(100));
  ASSERT_TRUE(finding.finish());
  ASSERT_FALSE(*finding.result);
  const Error& error = finding.result->error();
  EXPECT_EQ(error.kind, ErrorKind::kTimeout);
  EXPECT_THAT(error.text(), HasSubstr("n1:29400: cannot resolve 'n1'; give a name that this node can look up"));
}

TEST(Finder, AResolverThatNeverAnswersIsNamedAtTheDeadline) {
  std::promise<void> never;
  const std::shared_future<void> answer = never.get_future().share();
  Finding finding;
  finding.start(
      {"n1:29400", "n1:29401"},
      [answer](const std::string&) -> Result<std::vector<net::Address>> {
        answer.wait();
        return std::vector<net::Address>();
      },
      milliseconds(1));
  EXPECT_EQ(finding.finder->telling_failure(), "no answer from the resolver for 'n1'");
  ASSERT_TRUE(finding.finish());
  ASSERT_FALSE(*finding.result);
  EXPECT_THAT(finding.result->error().message, HasSubstr(": n1: no answer from the resolver for 'n1'"));
  never.set_value();
}

TEST(Finder, MayBeDestroyedWhileItAsks) {
  Finding finding;
  const Names names;
  finding.start({"n1:29400"}, names.resolver());
  finding.finder.reset();
  finding.loop.run_until(Deadline::at(TimePoint::min()));
  EXPECT_FALSE(finding.result);
}

}  // namespace
}  // namespace muster::rendezvous
