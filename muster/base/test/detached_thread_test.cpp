#include "muster/base/detached_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
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

constexpr auto kPatience = std::chrono::milliseconds(1000);

// Continues the process after the deadline of its call.
[[noreturn]] void continue_when_stopped(pid_t process) {
  const std::string file = "/proc/" + std::to_string(process) + "/stat";
  for (std::string stat; stat.find(") T") == std::string::npos; ::usleep(1000)) {
    std::ifstream stream(file);
    if (!std::getline(stream, stat)) ::_exit(1);
  }
  std::this_thread::sleep_for(kPatience);
  ::kill(process, SIGCONT);
  ::_exit(0);
}

[[noreturn]] void stop_in_a_call() {
  const pid_t self = ::getpid();
  if (::fork() == 0) continue_when_stopped(self);
  auto answer = call_with_deadline<int>(Deadline::in(kPatience), [self] {
    ::kill(self, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return 7;
  });
  ::_exit(answer == 7 ? 0 : 1);
}

// The call itself stops the process, which continues after the deadline; the answer follows a moment later. In a process
// that has no other threads when it forks: ThreadSanitizer refuses threads after that.
TEST(CallWithDeadline, APauseOfTheProcessHardlyCounts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_in_a_call(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
