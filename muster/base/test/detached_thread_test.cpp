#include "muster/base/detached_thread.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(CallWithDeadline, ReturnsTheAnswer) {
  auto answer = call_with_deadline<int>(Deadline::in(std::chrono::minutes(1)), [] { return 7; });
  EXPECT_EQ(answer, 7);
}

TEST(CallWithDeadline, LeavesACallThatDoesNotReturn) {
  auto release = std::make_shared<std::mutex>();
  std::unique_lock hold(*release);
  auto answer = call_with_deadline<int>(Deadline::in(std::chrono::milliseconds(10)), [release] {
    std::lock_guard wait(*release);
    return 7;
  });
  EXPECT_FALSE(answer);
}

}  // namespace
}  // namespace muster
