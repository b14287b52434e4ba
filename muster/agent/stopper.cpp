#include "muster/agent/stopper.h"

#include <utility>

namespace muster::agent {

Stopper::Stopper(net::EventLoop& loop, report::Voice& voice, Crew& crew, std::function<void(Worker&)> given_up)
    : loop_(loop), voice_(voice), crew_(crew), given_up_(std::move(given_up)) {}

Stopper::~Stopper() { loop_.cancel(timer_); }

void Stopper::ask(int signal, Duration grace) {
  TimePoint now = Clock::now();
  signal_ = signal;
  grace_ = grace;
  if (escalation_) {
    escalation_->ask_again(now, grace);
  } else {
    escalation_.emplace(now, grace);
  }
  for (Worker& worker : crew_.workers()) {
    if (!worker.running) continue;
    voice_.closing(worker.child.pid, signal);
    crew_.ask(worker, signal, now);
  }
  take_due_step();
}

void Stopper::kill_now() {
  if (!escalation_ || crew_.running() == 0) return;
  voice_.killing_all(crew_.running());
  grace_ = Duration(0);
  escalation_->kill_now(Clock::now());
  take_due_step();
}

// Takes the step that is due, if any, and waits for the next.
void Stopper::take_due_step() {
  if (crew_.running() == 0) return;
  TimePoint now = Clock::now();
  job::Escalation::Step step = escalation_->step_at(now);
  if (std::exchange(step_, step) != step) {
    for (Worker& worker : crew_.workers()) {
      if (!worker.running) continue;
      if (step == job::Escalation::Step::kKilled) kill(worker);
      if (step == job::Escalation::Step::kAbandoned) abandon(worker);
    }
  }
  loop_.cancel(timer_);
  TimePoint next = escalation_->next_step(now);
  if (next != TimePoint::max()) timer_ = loop_.call_at(next, [this] { take_due_step(); });
}

void Stopper::kill(Worker& worker) {
  if (grace_ > Duration(0)) voice_.killing(worker.placement.rank, worker.child.pid, signal_, grace_);
  crew_.kill(worker);
}

void Stopper::abandon(Worker& worker) {
  voice_.unkillable(worker.placement.rank, worker.child.pid);
  crew_.abandon(worker);
  given_up_(worker);
}

}  // namespace muster::agent
