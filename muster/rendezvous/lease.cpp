#include <fmt/format.h>

#include <algorithm>

#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {
namespace {

constexpr Duration kLeastPause = std::chrono::seconds(1);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Lease::Lease(Duration length, TimePoint now)
    : length_(length), until_(now + length), last_tick_(now), last_echo_(now), asked_since_(now) {}

Lease::State Lease::tick(TimePoint now) {
  const Duration late = now - last_tick_ - kBeatPeriod;
  last_tick_ = now;
  if (state_ == State::kExpired) return state_;
  if (late > std::max(kLeastPause, length_ / 3)) {
    // Whatever the clock says of the lease: nobody could have been heard meanwhile.
    state_ = State::kAsking;
    pause_ = late;
    asked_since_ = now;
    until_ = now + length_;
    return state_;
  }
  if (now >= until_) state_ = State::kExpired;
  return state_;
}

Lease::State Lease::echoed(TimePoint sent, bool stands, TimePoint now) {
  if (state_ == State::kExpired) return state_;
  last_echo_ = now;
  if (!stands) {
    disowned_ = true;
    state_ = State::kExpired;
    return state_;
  }
  if (state_ == State::kAsking && sent < asked_since_) return state_;  // it speaks of the time before the pause
  state_ = State::kHolding;
  until_ = std::max(until_, sent + length_);
  return state_;
}

std::string Lease::reason(TimePoint now) const {
  if (disowned_ && pause_ > Duration(0))
    return fmt::format("the job went on without this node after a pause of {:.1f} s", seconds(pause_));
  if (disowned_) return "the job has gone on without this node";
  return fmt::format("no word from the coordinator for {:.1f} s", seconds(now - last_echo_));
}

}  // namespace muster::rendezvous
