#include "muster/report/stop_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "muster/base/strings.h"
#include "muster/process/command.h"

namespace muster::report {
namespace {

// The value in a line of " NAME=value"; empty for none.
std::string_view field(std::string_view line, std::string_view name) {
  for (std::string_view word : split(line, ' '))
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  return {};
}

// Whether a job's script was ended by a signal, from "0:15".
bool ended_by_signal(std::string_view exit_code) {
  const size_t colon = exit_code.find(':');
  return colon != std::string_view::npos && parse_int(exit_code.substr(colon + 1)).value_or(0) != 0;
}

}  // namespace

std::string slurm_cause(std::string_view jobs, std::string_view id, int64_t restarts, bool in_step) {
  for (std::string_view line : split(jobs, '\n')) {
    if (field(line, "JobId") != id) continue;
    const std::string_view state = field(line, "JobState");
    for (std::string_view going_on : {"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "RESIZING", "SIGNALING"})
      if (state == going_on) return {};
    if (parse_int(field(line, "Restarts")).value_or(0) > restarts) return fmt::format("Slurm requeues job {}", id);
    const std::string_view preempted = field(line, "PreemptTime");
    if (state == "PREEMPTED" || (!preempted.empty() && preempted != "None" && preempted != "N/A"))
      return fmt::format("Slurm preempted job {}", id);
    if (state == "TIMEOUT" || field(line, "Reason") == "TimeLimit")
      return fmt::format("job {} reached its time limit in Slurm", id);
    const bool completing = state == "COMPLETING" && field(line, "Reason") == "None";
    // Slurm says the same of a job whose script has ended while a step goes on. What is in the script itself ends with it.
    if (completing && in_step && !ended_by_signal(field(line, "ExitCode")))
      return fmt::format("Slurm is ending job {}, which was cancelled or whose script has ended", id);
    if (state == "CANCELLED" || completing) return fmt::format("Slurm cancelled job {}", id);
  }
  return {};
}

std::string scheduler_cause(int signal, const Environment& environment, Duration longest) {
  const std::string id = environment.get("SLURM_JOB_ID").value_or("");
  if (signal != SIGTERM || id.empty()) return {};
  const std::vector<std::string> command = {"scontrol", "--oneliner", "show", "job", id};
  const Deadline deadline = Deadline::in(longest);
  auto said = process::run_command(command, environment, deadline);
  // Slurm signals the processes of a job one after the other, and this one among them.
  while (said && said->status.signal == signal && !deadline.passed())
    said = process::run_command(command, environment, deadline);
  if (!said) return {};
  // The numbers from here on are of the script and the interactive shell of salloc.
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  const bool in_step =
      parse_int(environment.get("SLURM_STEP_ID").value_or("")).value_or(kFirstSpecialStep) < kFirstSpecialStep;
  return slurm_cause(said->output, id, parse_int(environment.get("SLURM_RESTART_COUNT").value_or("")).value_or(0),
                     in_step);
}

}  // namespace muster::report
