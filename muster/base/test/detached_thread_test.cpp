#include "muster/base/detached_thread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

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

// The call itself stops the process, which continues after the deadline; the answer follows a moment later.
TEST(CallWithDeadline, APauseOfTheProcessHardlyCounts) {
  constexpr auto kPatience = std::chrono::milliseconds(1000);
  const pid_t child = ::fork();
  if (child == 0) {
    auto answer = call_with_deadline<int>(Deadline::in(kPatience), [] {
      ::kill(::getpid(), SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return 7;
    });
    ::_exit(answer == 7 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(kPatience);
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster
