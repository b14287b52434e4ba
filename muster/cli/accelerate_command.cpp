#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/cli/accelerate_plan.h"
#include "muster/cli/commands.h"
#include "muster/cli/facts.h"
#include "muster/cli/help.h"
#include "muster/cli/verbs.h"
#include "muster/process/cpus.h"

namespace muster::cli {
namespace {

int show_help(Detail detail) {
  return print(verb_help(Verb::kAccelerate, "muster accelerate", detail, style_of(STDOUT_FILENO)));
}

}  // namespace

int accelerate_launch_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> notes;
  auto line = read_accelerate(arguments, notes);
  if (!line) return fail(line.error());
  if (line->help) return show_help(line->help_all ? Detail::kAll : Detail::kCommon);
  plan::Facts facts = own_facts();
  auto job = translate_accelerate(*line, facts);
  if (!job) return fail(job.error());
  job->launch.notes.insert(job->launch.notes.begin(), notes.begin(), notes.end());
  const std::string typed = "muster accelerate launch";
  if (job->request.record.given()) job->request.command_line = command_line(typed, arguments);
  const int cores = process::usable_cores();
  return run_with_mates(Verb::kRun, typed, job->request, facts, [&] {
    // Threads were counted before the other tasks' cores were ours too.
    if (process::usable_cores() != cores)
      if (auto again = translate_accelerate(*line, facts))
        job->request.worker_variables = again->request.worker_variables;
    auto plan = plan_accelerate(*job, facts);
    return plan ? carry_out(Verb::kRun, typed, job->request, facts, *plan, job->json) : fail(plan.error());
  });
}

int accelerate_command(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    return fail({ErrorKind::kUsage, "the sub-command is missing", "write muster accelerate launch train.py"});
  const std::string& word = arguments[0];
  if (word == "launch") return accelerate_launch_command({arguments.begin() + 1, arguments.end()});
  if (word == "--help" || word == "-h") return show_help(Detail::kCommon);
  if (word == "--help-all") return show_help(Detail::kAll);
  if (word.starts_with('-') || word.ends_with(".py"))
    return fail({ErrorKind::kUsage, fmt::format("'{}' is given instead of launch", word),
                 fmt::format("write muster accelerate launch {}", word)});
  if (nearest_word(word, {"launch"}))
    return fail({ErrorKind::kUsage, fmt::format("'{}' is not a sub-command", word),
                 "did you mean 'muster accelerate launch'?"});
  return fail(
      {ErrorKind::kUsage, fmt::format("muster accelerate supports launch only, not '{}'", word),
       fmt::format("use accelerate {} itself; muster accelerate launch reads what accelerate config wrote", word)});
}

}  // namespace muster::cli
