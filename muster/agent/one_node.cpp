// A job that has this node alone decides for itself.
#include "muster/agent/director.h"
#include "muster/agent/restart_policy.h"
#include "muster/base/random.h"
#include "muster/report/report.h"

namespace muster::agent {
namespace {

class OneNode final : public Director {
 public:
  OneNode(NodeControl& node, const job::JobSpec& job, int warden_pid)
      : node_(node), job_(job), warden_pid_(warden_pid) {
    round_.world_size = round_.role_world_size = job.workers;
    round_.master_addr = job.master_addr;
    round_.job = random_job_id();
  }

  void begin() override { start(); }
  void round_started() override {}
  void worker_failed(const Worker& /*worker*/) override {}
  void round_ended(const std::optional<Error>& error) override;
  void stop_asked(int /*signal*/) override { failed_first_ = node_.crew() != nullptr && node_.crew()->anyone_failed(); }
  int conclude(Conclusion& conclusion, const std::optional<Error>& error) override;
  Conclusion::Count count() const override { return {.round = round_.number, .restarts = round_.restarts}; }

 private:
  void start();
  bool restart_after_failure();
  bool signalled() const { return !node_.stop_signals().empty(); }

  NodeControl& node_;
  const job::JobSpec& job_;
  int warden_pid_;
  job::Round round_;
  bool failed_first_ = false;  // a worker had failed before the first signal that asked us to end
  std::optional<Error> start_error_;
  std::vector<report::WorkerOutcome> outcomes_;
  report::Verdict verdict_;
};

void OneNode::start() {
  TimePoint begin = Clock::now();
  auto port = node_.open_store({});
  if (!port) {
    start_error_ = port.error();
    return node_.finish();
  }
  round_.master_port = *port;
  node_.events().rendezvous(Clock::now() - begin, round_.restarts);
  node_.start_round(round_);
}

void OneNode::round_ended(const std::optional<Error>& error) {
  start_error_ = error;
  if (!error && node_.crew()->anyone_failed() && restart_after_failure()) return start();
  node_.finish();
}

bool OneNode::restart_after_failure() {
  Log& log = node_.console().log();
  outcomes_ = node_.crew()->outcomes(log);
  verdict_ = report::judge(outcomes_);
  const report::WorkerOutcome& root = outcomes_[verdict_.root];
  if (!signalled()) node_.voice().failed(root, job_.command.program);
  RestartDecision decision = decide_restart(round_.restarts, job_.max_restarts, signalled());
  log.debug("root cause: {}", verdict_.reason);
  if (!decision.restart) {
    log.debug("no restart: {}", decision.reason);
    return false;
  }
  node_.voice().restarting(decision.reason, root);
  // torchrun says nothing of a round that is not the last.
  if (job_.flavor == job::Flavor::kMuster) node_.crew()->record_ends(node_.events(), true);
  ++round_.restarts;
  ++round_.number;
  return true;
}

int OneNode::conclude(Conclusion& conclusion, const std::optional<Error>& error) {
  if (error) return conclusion.not_started(*error);
  if (start_error_) return conclusion.not_started(*start_error_);
  bool restarts_left = round_.restarts < job_.max_restarts;
  Crew& crew = *node_.crew();
  switch (ending_of(crew.anyone_failed(), signalled(), failed_first_, restarts_left)) {
    case Ending::kSucceeded:
      return conclusion.succeeded(crew);
    case Ending::kFailed:
      return conclusion.failed(crew, std::move(outcomes_), std::move(verdict_));
    case Ending::kSignalled:
      break;
  }
  return conclusion.signalled(node_.stop_signals().front(), warden_pid_, crew.outcomes(node_.console().log()));
}

}  // namespace

std::unique_ptr<Director> make_one_node(NodeControl& node, const job::JobSpec& job, int warden_pid) {
  return std::make_unique<OneNode>(node, job, warden_pid);
}

}  // namespace muster::agent
