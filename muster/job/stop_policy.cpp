#include "muster/job/stop_policy.h"

#include <algorithm>
#include <csignal>

namespace muster::job {
namespace {

constexpr auto kTorchrunFailureGrace = std::chrono::seconds(30);
// A killed process needs time to be torn down: gigabytes of memory, a GPU's context.
constexpr auto kTearDownTime = std::chrono::seconds(60);

// Between the two ways of one signal there is one wake-up of the warden, on a machine that may be busy.
constexpr auto kEchoTime = std::chrono::milliseconds(300);

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

}  // namespace

SignalMeaning meaning_of(int signal, const std::vector<int>& handled, const std::vector<int>& before) {
  switch (signal) {
    case SIGCONT:
      return SignalMeaning::kResume;
    case SIGWINCH:
      return SignalMeaning::kResize;
    case SIGCHLD:
    case SIGURG:
      return SignalMeaning::kIgnore;
    default:
      break;
  }
  if (!contains(handled, signal)) {
    if (signal == SIGTSTP) return SignalMeaning::kSuspend;
    if (signal == SIGUSR1 || signal == SIGUSR2) return SignalMeaning::kPassOn;
  }
  if (before.empty()) return SignalMeaning::kStop;
  return signal == SIGINT && contains(before, SIGINT) ? SignalMeaning::kKill : SignalMeaning::kPassOn;
}

bool EchoFilter::is_echo(int signal, bool through_warden, TimePoint now) {
  auto found = heard_.find(signal);
  if (found != heard_.end() && found->second.through_warden != through_warden && now - found->second.when < kEchoTime) {
    heard_.erase(found);  // both ways were heard: the next is a new one
    return true;
  }
  heard_.insert_or_assign(signal, Heard{through_warden, now});
  return false;
}

Duration grace_after_signal(const JobSpec& job) { return job.shutdown_timeout; }

Duration grace_after_failure(const JobSpec& job) {
  return job.flavor == Flavor::kMuster ? job.shutdown_timeout : Duration(kTorchrunFailureGrace);
}

Escalation::Escalation(TimePoint now, Duration grace) : kill_at_(now + grace) {}

void Escalation::ask_again(TimePoint now, Duration grace) { kill_at_ = std::min(kill_at_, now + grace); }

void Escalation::kill_now(TimePoint now) { kill_at_ = std::min(kill_at_, now); }

Escalation::Step Escalation::step_at(TimePoint now) const {
  if (now < kill_at_) return Step::kAsked;
  return now < kill_at_ + kTearDownTime ? Step::kKilled : Step::kAbandoned;
}

TimePoint Escalation::next_step(TimePoint now) const {
  switch (step_at(now)) {
    case Step::kAsked:
      return kill_at_;
    case Step::kKilled:
      return kill_at_ + kTearDownTime;
    case Step::kAbandoned:
      break;
  }
  return TimePoint::max();
}

}  // namespace muster::job
