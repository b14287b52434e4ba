#include "muster/cluster/slurm/failure.h"

#include <fmt/format.h>

#include "muster/base/version.h"
#include "muster/cluster/starter.h"

namespace muster::cluster::slurm {

StartFailure task_failed(const TaskEnd& end, std::string_view last_line, Stage stage) {
  constexpr int kUsage = 2, kUnknown = 255;
  const bool joined = stage == Stage::kJoined;
  Error error = agent_ended({.code = end.code.value_or(kUnknown)}, joined ? "" : last_line);
  if (!end.code) error.message = fmt::format("the agent ended: {}", end.how);
  // Its words may be late. Before it asks, Slurm says the same of a program that is not there.
  if (stage == Stage::kAsked && end.code == kUsage) error.kind = ErrorKind::kUsage;
  return {StartCause::kAgentEnded, error, joined || !end.code};
}

StartFailure step_failed(int exit_code, std::string_view errors, bool joined) {
  StartFailure failure = explain_failure(exit_code, errors);
  if (joined) return {StartCause::kLost, {ErrorKind::kPeer, "its srun ended: " + failure.why.message, {}}, true};
  failure.why.message.insert(0, "srun: ");
  return failure;
}

StartFailure timed_out(Duration limit, std::string_view errors) {
  const StartFailure said = explain_failure(0, errors);
  const bool silent = errors.empty();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
  return {StartCause::kTimedOut,
          {ErrorKind::kTimeout,
           fmt::format("srun has started no agent within {} s{}", seconds, silent ? "" : " (" + said.why.message + ")"),
           said.why.hint.empty() ? "sinfo shows whether the node is up; squeue -s which steps hold it" : said.why.hint},
          silent || said.may_try_again};
}

StartFailure cannot_run(const std::string& program, const std::string& why, bool sent, StartCause cause) {
  if (sent) return {cause, {ErrorKind::kPeer, "the program was sent, but does not run there: " + why, {}}, false};
  return {cause,
          {ErrorKind::kPeer, fmt::format("no muster {} there ({}: {})", version(), program, why),
           "install it there, or let it be sent with --push-binary"},
          false};
}

}  // namespace muster::cluster::slurm
