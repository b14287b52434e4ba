#include "muster/net/name_queue.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "muster/net/interfaces.h"

namespace muster::net {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr auto kPatience = seconds(30);  // a test that waits this long has failed

// A resolver that holds its answers back until the test lets them go, by its destructor at the latest. Knows "n<i>";
// its threads may outlive the test.
class SlowResolver {
 public:
  ~SlowResolver() { let_go(); }
  void let_go() {
    const std::lock_guard lock(shared_->mutex);
    shared_->held = false;
    shared_->changed.notify_all();
  }
  // Waits for so many questions; how many there are then.
  size_t asked(size_t at_least) {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, kPatience, [&] { return shared_->asked.size() >= at_least; });
    return shared_->asked.size();
  }
  Resolver resolver() const {
    return [shared = shared_](const std::string& name) -> Result<std::vector<Address>> {
      std::unique_lock lock(shared->mutex);
      shared->asked.push_back(name);
      shared->changed.notify_all();
      shared->changed.wait(lock, [&] { return !shared->held; });
      if (name[0] != 'n') return Error{ErrorKind::kPeer, "cannot resolve it", {}};
      return std::vector{*parse_address("10.0.0." + name.substr(1), 0), *parse_address("fd00::" + name.substr(1), 0)};
    };
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> asked;
    bool held = true;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

struct Asking {
  SlowResolver slow;
  EventLoop loop;
  std::vector<std::string> found;
  NameQueue names{loop,
                  [this](const std::string& name, const std::vector<Address>& addresses) {
                    for (const Address& address : addresses) found.push_back(name + "=" + address.host());
                  },
                  slow.resolver()};

  bool until_found(size_t count) {
    const Deadline deadline = Deadline::in(kPatience);
    const auto hook = loop.add_end_hook([&] {
      if (found.size() >= count) loop.stop();
    });
    const bool reached = loop.run_until(deadline);
    loop.remove_end_hook(hook);
    return reached;
  }
};

TEST(NameQueue, ANumberIsItsOwnAnswer) {
  Asking asking;
  asking.names.ask("10.0.0.7");
  EXPECT_THAT(asking.found, ElementsAre("10.0.0.7=10.0.0.7"));
}

TEST(NameQueue, EveryAddressOfEveryNameIsFound) {
  Asking asking;
  asking.slow.let_go();
  for (const char* name : {"n1", "unknown", "n2"}) asking.names.ask(name);
  EXPECT_THAT(asking.found, IsEmpty()) << "it waited";
  ASSERT_TRUE(asking.until_found(4));
  EXPECT_THAT(asking.found, UnorderedElementsAre("n1=10.0.0.1", "n1=fd00::1", "n2=10.0.0.2", "n2=fd00::2"));
}

TEST(NameQueue, AFewAreAskedForAtATime) {
  Asking asking;
  const size_t all = 3 * NameQueue::kAtOnce;
  for (size_t i = 1; i <= all; ++i) asking.names.ask("n" + std::to_string(i));
  for (int i = 0; i < 3; ++i) asking.loop.run_until(Deadline::at(TimePoint::min()));
  EXPECT_EQ(asking.slow.asked(NameQueue::kAtOnce), NameQueue::kAtOnce);
  asking.slow.let_go();
  ASSERT_TRUE(asking.until_found(2 * all));
  EXPECT_EQ(asking.slow.asked(all), all);
}

TEST(NameQueue, WhatIsBeingAskedForIsNotAskedForTwice) {
  Asking asking;
  for (int i = 0; i < 3; ++i) asking.names.ask("n1");
  asking.slow.asked(1);
  asking.slow.let_go();
  ASSERT_TRUE(asking.until_found(2));
  EXPECT_EQ(asking.slow.asked(1), 1U);
  asking.names.ask("n1");  // it may have another address by now
  ASSERT_TRUE(asking.until_found(4));
  EXPECT_EQ(asking.slow.asked(2), 2U);
}

// Its threads go on, and must not miss what is gone; the sanitizers see to the rest.
TEST(NameQueue, MayBeDestroyedWhileNobodyAnswers) {
  SlowResolver slow;
  EventLoop loop;
  {
    NameQueue names(
        loop, [](const std::string&, const std::vector<Address>&) { ADD_FAILURE(); }, slow.resolver());
    for (int i = 1; i < 10; ++i) names.ask("n" + std::to_string(i));
    slow.asked(NameQueue::kAtOnce);
  }
  slow.let_go();
  loop.run_until(Deadline::at(TimePoint::min()));
}

}  // namespace
}  // namespace muster::net
