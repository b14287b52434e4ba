#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {
namespace {

constexpr Duration kLeastPause = std::chrono::seconds(1);  // shorter ones happen on any busy machine

}  // namespace

Lease::Lease(Duration length, TimePoint now)
    : length_(length), until_(now + length), last_tick_(now), last_echo_(now), asked_since_(now) {}

Lease::State Lease::tick(TimePoint now) {
  // First: whoever stood still learns it here, before it could hold the silence of that time against the coordinator.
  notice_pause(now);
  if (state_ != State::kExpired && now >= until_) state_ = State::kExpired;
  return state_;
}

Lease::State Lease::echoed(TimePoint sent, bool stands, TimePoint now) {
  notice_pause(now);
  if (state_ == State::kExpired) return state_;
  last_echo_ = now;
  if (!stands) {
    disowned_ = true;
    state_ = State::kExpired;
    return state_;
  }
  // What the coordinator said before or during the pause says nothing about what it has decided since.
  if (state_ == State::kAsking && sent >= asked_since_) {
    state_ = State::kHolding;
    pause_ = Duration::zero();
  }
  if (state_ == State::kHolding) until_ = std::max(until_, std::min(sent, now) + length_);
  return tick(now);
}

void Lease::notice_pause(TimePoint now) {
  Duration late = now - last_tick_ - kBeatPeriod;
  Duration stood_still = now - last_tick_;
  last_tick_ = std::max(last_tick_, now);
  if (state_ == State::kExpired || late < std::max(length_ / 3, kLeastPause)) return;
  state_ = State::kAsking;
  pause_ += stood_still;
  asked_since_ = now;
  until_ = now + length_;
}

std::string Lease::reason(TimePoint now) const {
  std::string after = pause_ > Duration::zero() ? fmt::format(" after a pause of {}", elapsed_text(pause_)) : "";
  if (disowned_) return "the job went on without this node" + after;
  if (state_ == State::kAsking) return fmt::format("this node stood still for {}", elapsed_text(pause_));
  TimePoint since = after.empty() ? last_echo_ : std::max(last_echo_, asked_since_);
  return fmt::format("no word from the coordinator for {}{}", elapsed_text(now - since), after);
}

}  // namespace muster::rendezvous
