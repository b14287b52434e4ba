#pragma once

#include <time.h>

#include <chrono>

namespace muster {

// The one clock for deadlines, timers and leases. It counts the time for which the machine was suspended
// (CLOCK_BOOTTIME; std::chrono::steady_clock does not): a suspended node must not believe that its lease still holds.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): the name that std::chrono asks for

  static time_point now() noexcept {
    timespec time;
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

// When a blocking call must have ended. Every blocking call takes one.
class Deadline {
 public:
  static Deadline in(Duration duration) { return Deadline(Clock::now() + duration); }
  static Deadline at(TimePoint time) { return Deadline(time); }

  TimePoint time() const { return time_; }
  bool passed() const { return Clock::now() >= time_; }

  // What is left, rounded up to whole milliseconds and never negative: poll()'s argument.
  int poll_timeout() const {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(time_ - Clock::now()).count();
    return left < 0 ? 0 : left > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(left);
  }

 private:
  explicit Deadline(TimePoint time) : time_(time) {}
  TimePoint time_;
};

}  // namespace muster
