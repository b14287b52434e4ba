#include "muster/agent/file_timers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

std::string request(int pid, const std::string& scope, double expires, int signal) {
  return fmt::format(R"({{"version": 1, "pid": {}, "scope_id": "{}", "expiration_time": {}, "signal": {}}})", pid,
                     scope, expires, signal);
}

TEST(TimerRequest, IsReadAsTorchWritesIt) {
  EXPECT_EQ(parse_timer_request(request(7, "step", 1700000000.25, 9)), (TimerRequest{7, "step", 1700000000.25, 9}));
  EXPECT_EQ(parse_timer_request(request(7, "step", -1, 0)), (TimerRequest{7, "step", -1, 0}));
}

TEST(TimerRequest, AnythingElseIsNone) {
  for (std::string line :
       {"", "{}", "[]", "x", "{\"pid\": 1", R"({"pid": "1", "scope_id": "s", "expiration_time": 1, "signal": 9})",
        R"({"pid": 1, "scope_id": 3, "expiration_time": 1, "signal": 9})",
        R"({"pid": 1e300, "scope_id": "s", "expiration_time": 1, "signal": 9})"})
    EXPECT_FALSE(parse_timer_request(line)) << line;
  EXPECT_FALSE(parse_timer_request(request(0, "s", 1, 9))) << "would be our own group";
  EXPECT_FALSE(parse_timer_request(request(-1, "s", 1, 9))) << "would be everybody";
  EXPECT_FALSE(parse_timer_request(request(1, std::string(5000, 'x'), 1, 9)));
}

TEST(TimerTable, ExpiresOncePerProcess) {
  TimerTable table;
  table.apply({1, "a", 30, 9});
  table.apply({1, "b", 10, 0});
  table.apply({1, "c", 20, 15});
  table.apply({2, "a", 50, 9});
  EXPECT_EQ(table.next_expiry(), 10);
  EXPECT_TRUE(table.take_expired(9).empty());
  EXPECT_THAT(table.take_expired(35), ElementsAre(TimerRequest{1, "c", 20, 15}));
  EXPECT_EQ(table.next_expiry(), 50);
}

TEST(TimerTable, ReleaseTakesATimerBack) {
  TimerTable table;
  table.apply({1, "a", 30, 9});
  table.apply({1, "a", 60, 9});
  EXPECT_EQ(table.next_expiry(), 60);
  table.apply({1, "a", -1, 0});
  EXPECT_EQ(table.next_expiry(), std::nullopt);
  EXPECT_TRUE(table.take_expired(100).empty());
}

TEST(FileTimers, TellWhenATimerThatAWorkerWroteHasExpired) {
  net::EventLoop loop;
  std::vector<TimerRequest> expired;
  std::string path = testing::TempDir() + fmt::format("timers_{}", ::getpid());
  {
    auto timers = FileTimers::open(loop, path, [&](const TimerRequest& timer) {
      expired.push_back(timer);
      loop.stop();
    });
    ASSERT_TRUE(timers.ok()) << timers.error().text();
    Fd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_TRUE(pipe);
    std::string lines = "junk\n" + request(5, "late", 4e9, 9) + "\n" + request(6, "now", 1, SIGTERM) + "\n";
    ASSERT_TRUE(write_all(pipe.get(), lines.data(), lines.size()).ok());
    ASSERT_TRUE(loop.run_until(Deadline::in(std::chrono::seconds(20))));
  }
  EXPECT_THAT(expired, ElementsAre(TimerRequest{6, "now", 1, SIGTERM}));
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the pipe was left behind";
}

TEST(FileTimers, DefaultFileIsNamedAsTorchDoes) {
  EXPECT_THAT(default_timer_file(),
              MatchesRegex(".*/watchdog_timer_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

}  // namespace
}  // namespace muster::agent
