#include "muster/agent/node_director.h"

#include <unistd.h>

#include "muster/report/outcome_codec.h"

namespace muster::agent {

using namespace rendezvous;  // the messages

Join NodeDirector::join() const {
  Join join;
  join.host = job_.host;
  join.workers = job_.workers;
  join.role = job_.role;
  join.agent_pid = ::getpid();
  return join;
}

void NodeDirector::open_store(const OpenStore& open) {
  auto port = node_.open_store({.members = open.members});
  if (!port) start_error_ = port.error();
  say(StoreOpened{open.round, port ? *port : uint16_t{0}, port ? "" : port.error().text()});
}

void NodeDirector::take_round(const StartRound& start) {
  round_ = start.round;
  in_round_ = true;
  started_ = false;
  start_error_.reset();
}

void NodeDirector::start(const std::string& master_addr) {
  started_ = true;
  round_.master_addr = master_addr;
  if (!node_.stop_signals().empty()) return cannot_start("a signal asked this node to end");
  // torchrun says nothing of a round that is not the last.
  if (job_.flavor == job::Flavor::kMuster && node_.crew() != nullptr) node_.crew()->record_ends(node_.events(), true);
  node_.events().rendezvous(Clock::now() - began_, round_.restarts);
  node_.start_round(round_);
}

void NodeDirector::cannot_start(const std::string& why) {
  in_round_ = false;
  say(RoundEnded{.round = round_.number, .succeeded = false, .outcomes = {}, .start_error = why});
}

void NodeDirector::round_started() {
  RoundStarted started{.round = round_.number, .pids = {}};
  for (const Worker& worker : node_.crew()->workers()) started.pids.push_back(worker.child.pid);
  say(started);
}

void NodeDirector::worker_failed(const Worker& worker) {
  say(WorkerFailed{round_.number, worker.placement.rank, worker.status.text()});
}

void NodeDirector::round_ended(const std::optional<Error>& error) {
  in_round_ = false;
  if (error_ || end_) return node_.finish();
  start_error_ = error;
  Crew* crew = node_.crew();
  RoundEnded ended{.round = round_.number, .succeeded = false, .outcomes = {}, .start_error = {}};
  if (error) ended.start_error = error->text();
  if (crew != nullptr && crew->round().number == round_.number) {
    ended.succeeded = !error && !crew->anyone_failed() && crew->workers().size() == static_cast<size_t>(job_.workers);
    // Of a job that has succeeded nobody wants to know more.
    const bool success = ended.succeeded && round_.group_world_size == 1 && node_.stop_signals().empty();
    if (!success) ended.outcomes = report::encode_outcomes(crew->outcomes(node_.console().log()));
  }
  say(ended);
}

}  // namespace muster::agent
