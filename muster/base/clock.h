#pragma once

#include <chrono>

namespace muster {

using Clock = std::chrono::steady_clock;
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
