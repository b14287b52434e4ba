#include <fmt/format.h>

#include <csignal>

#include "muster/base/strings.h"
#include "muster/cluster/pbs/starter.h"

namespace muster::cluster::pbs {
namespace {

// Exit codes: of pbs_tmrsh itself; of a task whose program MOM could not execute; of pbs_attach itself, and of a shell.
constexpr int kTmrshFailed = 255, kCannotExecute = 254, kAttachFailed = 1, kNoCommand = 127;
constexpr int kUsage = 2;
constexpr const char* kErrorFile = "the job's error file says why";

// pbs_tmrsh ends with 256 + the signal that ended its task, of which the lowest byte is left.
bool is_signal(int code) { return code > 0 && code < NSIG && code != kUsage; }

StartFailure tmrsh_itself(std::string_view last_line) {
  if (last_line.empty()) return {StartCause::kScheduler, {ErrorKind::kPeer, "pbs_tmrsh failed", kErrorFile}, true};
  std::string_view words = last_line;
  if (const size_t colon = words.find("pbs_tmrsh: "); colon != std::string_view::npos) words.remove_prefix(colon + 11);
  const bool hopeless = words.find("is not a node in job") != std::string_view::npos ||
                        words.find("not executing under PBS") != std::string_view::npos ||
                        words.find("PBS_NODEFILE") != std::string_view::npos;
  return {StartCause::kScheduler, {ErrorKind::kPeer, fmt::format("pbs_tmrsh: {}", words), {}}, !hopeless};
}

}  // namespace

StartFailure explain_tmrsh(const process::ExitStatus& status, std::string_view last_line, const std::string& program) {
  if (status.signal != 0)
    return {StartCause::kLost, {ErrorKind::kPeer, fmt::format("pbs_tmrsh ended: {}", status.text()), {}}, true};
  if (status.code == kTmrshFailed) return tmrsh_itself(trim(last_line));
  if (status.code == kCannotExecute)
    return {StartCause::kProgram,
            {ErrorKind::kPeer, fmt::format("PBS cannot execute {} there", program),
             fmt::format("it must be under the same path on every node; {}", kErrorFile)},
            false};
  if (is_signal(status.code))
    return {StartCause::kAgentEnded, agent_ended({.code = 0, .signal = status.code}, ""), true};
  Error error = agent_ended(status, "");
  error.hint = kErrorFile;
  return {StartCause::kAgentEnded, error, false};
}

std::optional<StartFailure> explain_attach(int exit_code, const std::string& errors) {
  for (std::string_view line : split(errors, '\n')) {
    line = trim(line);
    if (exit_code == kAttachFailed && line.find("tm_attach: ") != std::string_view::npos)
      return StartFailure{StartCause::kScheduler,
                          {ErrorKind::kPeer, std::string(line),
                           "only nodes of the job can be attached to it; name others with --hosts"},
                          false};
    if (exit_code == kNoCommand && line.find("pbs_attach") != std::string_view::npos)
      return StartFailure{
          StartCause::kScheduler, {ErrorKind::kPeer, fmt::format("no pbs_attach there ({})", line), {}}, false};
    // As perror() says it, of what pbs_attach was to execute.
    const size_t colon = line.find(": ");
    if (exit_code == kTmrshFailed && colon != std::string_view::npos &&
        (line.starts_with('/') || line.starts_with(".cache/muster/")))
      return StartFailure{StartCause::kProgram, {ErrorKind::kPeer, std::string(line.substr(colon + 2)), {}}, false};
  }
  return std::nullopt;
}

}  // namespace muster::cluster::pbs
