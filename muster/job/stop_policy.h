#pragma once

#include <map>
#include <vector>

#include "muster/base/clock.h"
#include "muster/job/spec.h"

namespace muster::job {

// What a signal means for the job at the moment it arrives.
enum class SignalMeaning {
  kStop,     // the job ends: to every worker's group, then the grace, then SIGKILL
  kKill,     // the job ends now: SIGKILL
  kPassOn,   // to every worker's group, nothing else
  kSuspend,  // stop the workers, then ourselves
  kResume,
  kResize,  // the terminal has another size
  kIgnore,
};

// `before`: the signals received so far that meant kStop or came after one. Those in `handled` (--signals-to-handle)
// stop the job, and so does any other that would have ended this process: workers never outlive us. A further one is
// passed on and does not prolong the grace; a second SIGINT kills. Pure.
SignalMeaning meaning_of(int signal, const std::vector<int>& handled, const std::vector<int>& before);

// Tells one signal that came twice from two signals. Whoever signals every process of a job (scancel, pkill, a cgroup)
// reaches the agent directly and through the warden; taken for two, one SIGINT would be a second Ctrl-C.
class EchoFilter {
 public:
  // True for what should be dropped: the same signal by the other way, a moment after the first. Pure but for memory.
  bool is_echo(int signal, bool through_warden, TimePoint now);

 private:
  struct Heard {
    bool through_warden;
    TimePoint when;
  };
  std::map<int, Heard> heard_;
};

// How long workers have after they were asked to stop. torchrun has its own opinion after a failure. Pure.
Duration grace_after_signal(const JobSpec& job);
Duration grace_after_failure(const JobSpec& job);

// The way from asking to killing to giving up on a process that not even SIGKILL ends (uninterruptible sleep).
//   kAsked -> kKilled     at kill_at(), or at once by kill_now()
//   kKilled -> kAbandoned at give_up_at()
class Escalation {
 public:
  enum class Step { kAsked, kKilled, kAbandoned };

  Escalation(TimePoint now, Duration grace);

  // Asked again, for another reason: whichever grace ends first counts.
  void ask_again(TimePoint now, Duration grace);
  void kill_now(TimePoint now);

  Step step_at(TimePoint now) const;
  // When the next step is due.
  TimePoint next_step(TimePoint now) const;

 private:
  TimePoint kill_at_;
};

}  // namespace muster::job
