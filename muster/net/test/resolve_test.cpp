#include "muster/net/resolve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netdb.h>

#include <atomic>
#include <csignal>
#include <future>

#include "muster/net/interfaces.h"

namespace muster::net {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kPatience = seconds(30);  // a test that waits this long has failed

std::vector<std::string> texts(const std::vector<Address>& addresses) {
  std::vector<std::string> found;
  found.reserve(addresses.size());
  for (const Address& address : addresses) found.push_back(address.text());
  return found;
}

// Knows nobody, and counts the questions.
struct Nobody {
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
  Result<std::vector<Address>> operator()(const std::string& name) const {
    ++*asked;
    return Error{ErrorKind::kPeer, fmt::format("cannot resolve '{}'", name), {}};
  }
};

// Answers no one before it is let go, by its destructor at the latest.
class Silent {
 public:
  ~Silent() { let_go_.set_value(); }
  Resolver resolver() {
    return [answer = std::shared_future<void>(gone_)](const std::string&) -> Result<std::vector<Address>> {
      answer.wait();
      return std::vector<Address>{*parse_address("10.0.0.1", 0)};
    };
  }

 private:
  std::promise<void> let_go_;
  std::shared_future<void> gone_ = let_go_.get_future().share();
};

TEST(Resolve, NumbersNeedNoResolver) {
  const Nobody nobody;
  auto v4 = resolve("127.0.0.1", 5, Deadline::in(kPatience), nobody);
  ASSERT_TRUE(v4);
  EXPECT_THAT(texts(*v4), ElementsAre("127.0.0.1:5"));
  EXPECT_TRUE(v4->front().is_loopback());
  auto v6 = resolve("::1", 5, Deadline::in(kPatience), nobody);
  ASSERT_TRUE(v6);
  EXPECT_THAT(texts(*v6), ElementsAre("[::1]:5"));
  EXPECT_TRUE(v6->front().is_loopback());
  EXPECT_EQ(*nobody.asked, 0);
}

TEST(Resolve, TheSystemKnowsLocalhost) {
  auto found = resolve("localhost", 80, Deadline::in(kPatience));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_TRUE(found->front().is_loopback());
  EXPECT_EQ(found->front().port(), 80);
}

TEST(Resolve, AnUnknownNameIsAnErrorOfItsOwn) {
  auto found = resolve("n1", 80, Deadline::in(kPatience), Nobody());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::kPeer);
  EXPECT_EQ(found.error().message, "cannot resolve 'n1'");
}

TEST(Resolve, ATemporaryFailureMayBeAMisspeltName) {
  const std::string temporary = cannot_resolve("n9", EAI_AGAIN).text();
  EXPECT_TRUE(temporary.starts_with("cannot resolve 'n9': ") && temporary.ends_with(", or the name is misspelt"));
  EXPECT_FALSE(cannot_resolve("n9", EAI_NONAME).text().ends_with(", or the name is misspelt"));
}

TEST(Resolve, ASilentResolverIsNotWaitedFor) {
  Silent silent;
  auto found = resolve("n1", 80, Deadline::in(std::chrono::milliseconds(1)), silent.resolver());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::kTimeout);
  EXPECT_THAT(found.error().message, HasSubstr("the resolver gave no answer for 'n1' within "));
  EXPECT_THAT(found.error().hint, HasSubstr("give an address"));
}

TEST(Lookup, TheAnswerMayComeLater) {
  std::optional<Silent> silent(std::in_place);
  Lookup lookup("n1", silent->resolver());
  EXPECT_EQ(lookup.take(Deadline::in(Duration(0))).error().kind, ErrorKind::kTimeout);
  silent.reset();
  auto found = lookup.take(Deadline::in(kPatience));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(texts(*found), ElementsAre("10.0.0.1:0"));
}

TEST(Lookup, ItsThreadTakesNoSignals) {
  auto blocked = std::make_shared<std::promise<bool>>();
  Lookup lookup("n1", [blocked](const std::string&) -> Result<std::vector<Address>> {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked->set_value(sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGCHLD) == 1);
    return std::vector<Address>();
  });
  EXPECT_TRUE(lookup.take(Deadline::in(kPatience)));
  EXPECT_TRUE(blocked->get_future().get());
  sigset_t ours;
  pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  EXPECT_EQ(sigismember(&ours, SIGTERM), 0);
}

TEST(ResolveEndpoints, AsksForEachHostOnce) {
  auto asked = std::make_shared<std::atomic<int>>(0);
  auto found = resolve_endpoints({"n1:1", "10.0.0.2:5", "n1:2"}, Deadline::in(kPatience),
                                 [asked](const std::string&) -> Result<std::vector<Address>> {
                                   ++*asked;
                                   return std::vector<Address>{*parse_address("10.0.0.1", 0)};
                                 });
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(texts(*found), ElementsAre("10.0.0.1:1", "10.0.0.2:5", "10.0.0.1:2"));
  EXPECT_EQ(*asked, 1);
}

TEST(ResolveEndpoints, OneThatIsUnknownDoesNotHideTheOthers) {
  auto some = resolve_endpoints({"n1:1", "10.0.0.2:5"}, Deadline::in(kPatience), Nobody());
  ASSERT_TRUE(some);
  EXPECT_THAT(texts(*some), ElementsAre("10.0.0.2:5"));
  auto none = resolve_endpoints({"n1:1", "n2:5"}, Deadline::in(kPatience), Nobody());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "cannot resolve 'n1'");
}

TEST(FullyQualifiedHostname, IsWhatTheResolverSays) {
  auto ask = [](const std::string& name) { return name + ".example.org"; };
  EXPECT_EQ(fully_qualified_hostname(Deadline::in(kPatience), ask), hostname() + ".example.org");
}

TEST(FullyQualifiedHostname, IsTheHostnameWhereNobodyKnowsInTime) {
  auto late = std::make_shared<std::promise<std::string>>();
  auto ask = [answer = late->get_future().share()](const std::string&) { return answer.get(); };
  EXPECT_EQ(fully_qualified_hostname(Deadline::in(Duration(0)), ask), hostname());
  late->set_value("n1.example.org");
}

}  // namespace
}  // namespace muster::net
