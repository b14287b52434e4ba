#include "muster/agent/warden_watch.h"

#include <poll.h>

#include <algorithm>

#include "muster/process/proc.h"

namespace muster::agent {
namespace {

// One read of /proc, 10 us. The shorter, the sooner a stop of the warden is seen.
constexpr auto kPeriod = std::chrono::milliseconds(100);
constexpr auto kHaltTime = std::chrono::seconds(1);

}  // namespace

WardenWatch::WardenWatch(net::EventLoop& loop, pid_t warden, int warden_fd, WardenLink& link,
                         std::function<void(const std::string& why)> end)
    : loop_(loop), warden_(warden), warden_fd_(warden_fd), link_(link), end_(std::move(end)) {
  look();
}

WardenWatch::~WardenWatch() { loop_.cancel(timer_); }

bool WardenWatch::warden_is_stopped() const {
  auto stat = process::read_proc_stat(warden_);
  return stat && stat->state == 'T';
}

void WardenWatch::look() {
  using Verdict = rendezvous::LeaseWatch::Verdict;
  const TimePoint now = Clock::now();
  link_.pulse(now);
  rendezvous::LeaseWatch::Sight sight{.warden_stopped = warden_is_stopped()};
  if (auto terms = link_.terms()) {
    sight.until = link_.lease_until();
    sight.lease = terms->lease;
  }
  const Verdict verdict = watch_.look(now, sight);
  if (verdict == Verdict::kRun) {
    halt_.resume();
  } else {
    hold();
  }
  if (verdict == Verdict::kEnd && !ended_) {
    ended_ = true;
    end_("the lease of this node has ended, and its warden does not renew it");
  }
  if (ended_) return;
  if (sight.warden_stopped) stand_still();
  const TimePoint next = Clock::now() + kPeriod;
  timer_ = loop_.call_at(verdict == Verdict::kRun ? std::min(next, sight.until) : next, [this] { look(); });
}

void WardenWatch::hold() {
  if (halt_.stop(kHaltTime) || !link_.terms() || ended_) return;
  ended_ = true;
  end_("the workers of this node must stand still, but start processes faster than they can be stopped");
}

// As if this process were stopped too: its timers must not count the time against the coordinator.
void WardenWatch::stand_still() {
  while (warden_is_stopped()) {
    link_.pulse(Clock::now());
    pollfd gone{warden_fd_, POLLIN, 0};
    if (::poll(&gone, 1, static_cast<int>(kPeriod.count())) > 0) return;
    hold();
    if (ended_) return;
  }
}

}  // namespace muster::agent
