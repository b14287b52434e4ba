#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {
namespace {

constexpr Duration kLeastPause = std::chrono::seconds(1);  // shorter ones happen on any busy machine

}  // namespace

Lease::Lease(Duration length, TimePoint since, TimePoint now)
    : length_(length), until_(since + length), last_tick_(now), last_echo_(since) {
  if (now >= until_) woke_ = now;  // the answer took longer than a lease: ask before anything is started
  settle(now);
}

Lease::State Lease::tick(TimePoint now) {
  notice_pause(now);
  return settle(now);
}

Lease::State Lease::echoed(TimePoint sent, bool stands, TimePoint now) {
  notice_pause(now);
  if (state_ == State::kExpired) return state_;
  last_echo_ = now;
  disowned_ = !stands;
  if (stands) until_ = std::max(until_, std::min(sent, now) + length_);
  return settle(now);
}

TimePoint Lease::next_change() const { return state_ == State::kAsking ? woke_ + length_ : until_; }

Lease::State Lease::settle(TimePoint now) {
  const bool stood_still = woke_ > until_ - length_;
  if (!stood_still) pause_ = Duration::zero();
  if (state_ == State::kExpired || disowned_) {
    state_ = State::kExpired;
  } else if (now < until_) {
    state_ = State::kHolding;
  } else {
    state_ = stood_still && now < woke_ + length_ ? State::kAsking : State::kExpired;
  }
  return state_;
}

void Lease::notice_pause(TimePoint now) {
  const Duration stood_still = now - last_tick_;
  last_tick_ = std::max(last_tick_, now);
  if (state_ == State::kExpired || stood_still - kBeatPeriod < std::max(length_ / 3, kLeastPause)) return;
  pause_ += stood_still;
  woke_ = now;
}

std::string Lease::reason(TimePoint now) const {
  std::string after = pause_ > Duration::zero() ? fmt::format(" after a pause of {}", elapsed_text(pause_)) : "";
  if (disowned_) return "the job went on without this node" + after;
  if (state_ == State::kAsking) return fmt::format("this node stood still for {}", elapsed_text(pause_));
  TimePoint since = after.empty() ? last_echo_ : std::max(last_echo_, woke_);
  return fmt::format("no word from the coordinator for {}{}", elapsed_text(now - since), after);
}

LeaseWatch::Verdict LeaseWatch::look(TimePoint now, const Sight& sight) {
  const bool late = now > last_look_ + kBeatPeriod + kLeastPause;
  last_look_ = now;
  const bool over = now >= sight.until;
  if (sight.warden_stopped || !over || late) over_since_.reset();
  if (sight.warden_stopped) return Verdict::kHold;
  if (!over) return Verdict::kRun;
  if (!over_since_) over_since_ = now;
  return now - *over_since_ < sight.lease ? Verdict::kHold : Verdict::kEnd;
}

}  // namespace muster::rendezvous
