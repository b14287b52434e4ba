#pragma once

#include <functional>
#include <optional>

#include "muster/agent/crew.h"
#include "muster/job/stop_policy.h"
#include "muster/net/event_loop.h"
#include "muster/report/voice.h"

namespace muster::agent {

// Ends those workers of a round that still run: asks them, kills who is left after the grace, gives up on who not even
// that ends (see Escalation). Never blocks: the loop brings the next step. All it is given must outlive it.
class Stopper {
 public:
  // `given_up` is called for every worker that was abandoned, and may not destroy the Stopper.
  Stopper(net::EventLoop& loop, report::Voice& voice, Crew& crew, std::function<void(Worker&)> given_up);
  ~Stopper();  // no further step is taken
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

  // May be called again, for another reason: whichever grace ends first counts.
  void ask(int signal, Duration grace);
  // Ends the grace. Does nothing when nobody was asked before.
  void kill_now();

 private:
  void take_due_step();
  void kill(Worker& worker);
  void abandon(Worker& worker);

  net::EventLoop& loop_;
  report::Voice& voice_;
  Crew& crew_;
  std::function<void(Worker&)> given_up_;
  int signal_ = 0;  // what they were asked with
  Duration grace_{};
  std::optional<job::Escalation> escalation_;
  job::Escalation::Step step_ = job::Escalation::Step::kAsked;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace muster::agent
