#include "muster/agent/lease_keeper.h"

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::agent {

using rendezvous::Lease;

namespace {

// The most that an agent whose job is over does between two pulses: it reads error files, and writes report and events.
constexpr Duration kLastCalls = std::chrono::seconds(15);

}  // namespace

LeaseKeeper::LeaseKeeper(net::EventLoop& loop, const job::Token& token, WardenLink& link, Handlers handlers)
    : loop_(loop),
      token_(token),
      link_(link),
      terms_(*link.terms()),
      handlers_(std::move(handlers)),
      lease_(terms_.lease, terms_.since, Clock::now()),
      excused_(Clock::now()),
      last_tick_(excused_) {
  connect();
  tick();
}

LeaseKeeper::~LeaseKeeper() { loop_.cancel(timer_); }

void LeaseKeeper::connect() {
  rendezvous::Channel::Options options;
  options.token = token_;
  options.purpose = rendezvous::Purpose::kHeartbeat;
  options.greeting = [this] { return next_beat(); };
  connector_ = rendezvous::Connector::start(
      loop_, {terms_.coordinator}, options, terms_.lease, Deadline::at(lease_.next_change()),
      [this](Result<std::unique_ptr<rendezvous::Channel>> channel) {
        connector_.reset();
        if (!channel) return;  // the next tick tries again, while there is a lease
        channel_ = *std::move(channel);
        channel_->resume_on(loop_, {.opened = {},
                                    .received = [this](std::string_view bytes) { received(bytes); },
                                    .closed = [this](const Error&) { loop_.defer([this] { channel_.reset(); }); },
                                    .drained = {}});
      });
}

void LeaseKeeper::look() { look(Clock::now()); }

void LeaseKeeper::look(TimePoint now) {
  if (known_ == Lease::State::kExpired) return;
  act_on(link_.lease_has_ended() ? Lease::State::kHolding : lease_.tick(now));
}

// An agent that stood still together with this process gets a lease's time to show that it is back.
bool LeaseKeeper::agent_is_silent(TimePoint now) const {
  const Duration patience = link_.lease_has_ended() ? std::max<Duration>(terms_.lease, kLastCalls) : terms_.lease;
  return known_ == Lease::State::kHolding && now - std::max(link_.last_pulse(), excused_) > patience;
}

void LeaseKeeper::tick() {
  const TimePoint now = Clock::now();  // read once: this process may be stopped at any line
  if (now - last_tick_ > 2 * rendezvous::kBeatPeriod) excused_ = now;
  last_tick_ = now;
  look(now);
  if (known_ == Lease::State::kExpired) return;
  // When the lease ends, on the dot: the coordinator allows a margin, and a beat's time would use it up.
  const TimePoint change = link_.lease_has_ended() ? TimePoint::max() : lease_.next_change();
  timer_ = loop_.call_at(std::min(now + rendezvous::kBeatPeriod, change), [this] { tick(); });
  if (agent_is_silent(now))
    return expire("the agent has shown no sign of life for " + elapsed_text(now - link_.last_pulse()));
  if (channel_ && channel_->is_open()) {
    channel_->send(next_beat());
  } else if (!channel_ && !connector_ && !link_.lease_has_ended()) {
    connect();  // one that is under way is left alone: a handshake may take longer than a beat
  }
}

std::string LeaseKeeper::next_beat() {
  return rendezvous::encode(rendezvous::Beat{.node = terms_.node,
                                             .sequence = ++sequence_,
                                             .sent = Clock::now().time_since_epoch().count(),
                                             .paused = lease_.state() == Lease::State::kAsking});
}

void LeaseKeeper::received(std::string_view bytes) {
  auto message = rendezvous::decode(bytes);
  const auto* echo = message ? std::get_if<rendezvous::Echo>(&*message) : nullptr;
  if (echo == nullptr || link_.lease_has_ended()) return;
  const Lease::State state = lease_.echoed(TimePoint(Duration(echo->sent)), echo->stands, Clock::now());
  if (state == Lease::State::kHolding) link_.extend_lease(lease_.until());
  act_on(state);
}

void LeaseKeeper::act_on(Lease::State state) {
  if (state == known_) return;
  known_ = state;
  excused_ = Clock::now();
  if (state == Lease::State::kAsking) {
    handlers_.stop_workers();
    if (channel_ && channel_->is_open()) channel_->send(next_beat());
  } else if (state == Lease::State::kHolding) {
    handlers_.continue_workers();
  } else {
    expire(lease_.reason(Clock::now()));
  }
}

void LeaseKeeper::expire(const std::string& why) {
  known_ = Lease::State::kExpired;
  loop_.cancel(timer_);
  handlers_.expired(why);
}

void LeaseKeeper::say_goodbye(Deadline deadline) {
  constexpr auto kLook = std::chrono::milliseconds(10);
  if (!channel_ || !channel_->is_open()) return;
  channel_->send(rendezvous::encode(rendezvous::Goodbye{.node = terms_.node}));
  while (channel_ && channel_->unsent() > 0 && !deadline.passed()) loop_.run_until(Deadline::in(kLook));
}

}  // namespace muster::agent
