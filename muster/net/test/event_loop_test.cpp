#include "muster/net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace muster::net {
namespace {

using namespace std::chrono_literals;

TEST(EventLoop, TimersRunInOrderOfTime) {
  EventLoop loop;
  std::vector<int> order;
  loop.call_after(2ms, [&] {
    order.push_back(2);
    loop.stop();
  });
  loop.call_after(1ms, [&] { order.push_back(1); });
  auto cancelled = loop.call_after(1ms, [&] { order.push_back(9); });
  loop.cancel(cancelled);
  EXPECT_TRUE(loop.run_until(Deadline::in(10s)));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoop, RunUntilReturnsAtTheDeadline) {
  EventLoop loop;
  EXPECT_FALSE(loop.run_until(Deadline::in(1ms)));
}

TEST(EventLoop, HandlerMayUnwatchItselfAndOthersOfTheSameBatch) {
  EventLoop loop;
  Fd a(::eventfd(1, EFD_CLOEXEC));
  Fd b(::eventfd(1, EFD_CLOEXEC));
  int calls = 0;
  auto handler = [&](uint32_t) {
    ++calls;
    loop.unwatch(a.get());
    loop.unwatch(b.get());
    loop.stop();
  };
  loop.watch(a.get(), EPOLLIN, handler);
  loop.watch(b.get(), EPOLLIN, handler);
  EXPECT_TRUE(loop.run_until(Deadline::in(10s)));
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ReusedDescriptorDoesNotGetStaleEvents) {
  EventLoop loop;
  Fd a(::eventfd(1, EFD_CLOEXEC));
  Fd b(::eventfd(1, EFD_CLOEXEC));
  int stale = 0;
  // Whichever comes first closes the other and opens a silent descriptor under the same number.
  auto replace = [&](Fd& other) {
    return [&](uint32_t) {
      int number = other.get();
      loop.unwatch(number);
      other.reset();
      Fd silent(::eventfd(0, EFD_CLOEXEC));
      ASSERT_EQ(silent.get(), number);
      other = std::move(silent);
      loop.watch(number, EPOLLIN, [&](uint32_t) { ++stale; });
      loop.call_after(5ms, [&] { loop.stop(); });
      loop.unwatch(a.get() == number ? b.get() : a.get());
    };
  };
  loop.watch(a.get(), EPOLLIN, replace(b));
  loop.watch(b.get(), EPOLLIN, replace(a));
  EXPECT_TRUE(loop.run_until(Deadline::in(10s)));
  EXPECT_EQ(stale, 0);
}

TEST(EventLoop, DeferredWorkRunsBeforeTheNextWait) {
  EventLoop loop;
  loop.defer([&] { loop.defer([&] { loop.stop(); }); });
  EXPECT_TRUE(loop.run_until(Deadline::in(10s)));
}

TEST(EventLoop, AnEndHookRunsAfterEverythingElseOfAWakeUp) {
  EventLoop loop;
  std::vector<std::string> order;
  auto hook = loop.add_end_hook([&] { order.push_back("hook"); });
  loop.defer([&] { order.push_back("deferred"); });
  loop.call_at(TimePoint::min(), [&] {
    order.push_back("timer");
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(order, (std::vector<std::string>{"timer", "deferred", "hook"}));
  loop.remove_end_hook(hook);
  loop.run_until(Deadline::at(TimePoint::min()));
  EXPECT_EQ(order.size(), 3U);
}

}  // namespace
}  // namespace muster::net
