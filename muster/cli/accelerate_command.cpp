#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/cli/accelerate_plan.h"
#include "muster/cli/commands.h"
#include "muster/cli/help.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

int show_help(Detail detail) {
  return print(verb_help(Verb::kAccelerate, "muster accelerate", detail, style_of(STDOUT_FILENO)));
}

}  // namespace

int accelerate_launch_command(const std::vector<std::string>& arguments) {
  const Facts facts = real_facts();
  std::vector<std::string> notes;
  auto line = read_accelerate(arguments, facts, notes);
  if (!line) return fail(line.error());
  if (line->help) return show_help(line->help_all ? Detail::kAll : Detail::kCommon);
  auto job = translate_accelerate(*line, facts);
  if (!job) return fail(job.error());
  job->launch.notes.insert(job->launch.notes.begin(), notes.begin(), notes.end());
  const std::string typed = "muster accelerate launch";
  const int cores = facts.usable_cores();
  return run_with_mates(Verb::kRun, typed, job->parsed, facts, [&] {
    // Threads were counted before the other tasks' cores were ours too.
    if (facts.usable_cores() != cores)
      if (auto again = translate_accelerate(*line, facts)) job->launch.environment = again->launch.environment;
    auto plan = plan_accelerate(*job, facts);
    return plan ? carry_out(Verb::kRun, typed, job->parsed, facts, *plan, job->arguments) : fail(plan.error());
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
