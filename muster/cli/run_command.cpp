#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cli/commands.h"
#include "muster/cli/completion.h"
#include "muster/cli/dry_run.h"
#include "muster/cli/env_diff.h"
#include "muster/cli/help.h"
#include "muster/cli/job_record.h"
#include "muster/cli/planning.h"
#include "muster/cli/request.h"
#include "muster/cluster/slurm/node_mates.h"
#include "muster/launcher/alone.h"
#include "muster/launcher/fan_out.h"
#include "muster/launcher/symmetric.h"
#include "muster/output/console.h"
#include "muster/rendezvous/shared_secret.h"

namespace muster::cli {
namespace {

constexpr int kTorchrunFailure = 1;

void say(const std::string& text) { (void)write_all(STDERR_FILENO, text.data(), text.size()); }

// As torch.distributed.launch says it, in front of everything but its help.
void warn_of_deprecation(const GetEnv& getenv) {
  if (getenv("PYTHONWARNINGS").value_or("").starts_with("ignore")) return;
  say("muster launch: FutureWarning: The module torch.distributed.launch is deprecated\n"
      "and will be removed in future. Use torchrun.\n"
      "Note that --use-env is set by default in torchrun.\n"
      "If your script expects `--local-rank` argument to be set, please\n"
      "change it to read from `os.environ['LOCAL_RANK']` instead. See \n"
      "https://pytorch.org/docs/stable/distributed.html#launch-utility for \n"
      "further instructions\n\n");
}

int usage_failure(Verb verb, const std::string& program, const Error& error) {
  if (dialect_of(verb) == Dialect::kMuster) {
    say(fmt::format("muster: error: {}\n", error.text()));
  } else {
    say(fmt::format("{}{}: error: {}\n", argparse_usage(verb, program, style_of(STDERR_FILENO).width), program,
                    error.text()));
  }
  return exit_code(error);
}

// What is wrong with values rather than with words: torchrun ends such with 1.
int planning_failure(Verb verb, const std::string& program, const Error& error) {
  if (dialect_of(verb) == Dialect::kMuster) return usage_failure(verb, program, error);
  say(fmt::format("{}: error: {}\n", program, error.text()));
  return error.kind == ErrorKind::kInterrupted ? exit_code(error) : kTorchrunFailure;
}

void say_note(Verb verb, const plan::Note& note) {
  const bool ours = dialect_of(verb) == Dialect::kMuster;
  const std::string prefix = ours ? std::string(log_prefix(note.level)) : output::torchrun_prefix(note.level);
  for (std::string_view line : split(note.text, '\n')) say(fmt::format("{}{}\n", prefix, escaped(line)));
}

void say_notes(Verb verb, const plan::JobPlan& plan) {
  for (const plan::Note& note : plan.notes)
    if (note.level >= plan.job().log_threshold) say_note(verb, note);
}

int print_torchrun_completion(const std::string& program, const std::string& shell) {
  auto known = parse_shell(shell);
  if (!known) {
    say(fmt::format("{}: error: there is no completion for {}; use bash or zsh\n", program, shell));
    return kTorchrunFailure;
  }
  return print(completion_script(*known, "torchrun"));
}

int run_from_here(launcher::FanOut& spec, const job::Request& request) {
  std::error_code error;
  spec.start.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) {
    say(fmt::format("muster: error: /proc/self/exe: {}\n", error.message()));
    return kMusterFailed;
  }
  cluster::Description& description = spec.description;
  description.muster_version = version();
  description.directory = std::filesystem::current_path(error).string();
  if (error)
    return usage_failure(
        Verb::kRun, "",
        {ErrorKind::kUsage,
         fmt::format("agents start in this working directory, which cannot be found: {}", error.message()),
         "cd to one that exists"});
  description.request = job::encode(request);
  description.run_id = spec.job.run_id;
  if (spec.adapter->agents_ask()) {
    auto chosen = rendezvous::choose_secret();
    if (!chosen) {
      say(fmt::format("muster: error: {}\n", chosen.error().text()));
      return exit_code(chosen.error());
    }
    spec.secret = *std::move(chosen);
  }
  description.columns = {terminal_columns(STDOUT_FILENO), terminal_columns(STDERR_FILENO)};
  return launcher::run_fan_out(spec);
}

// As argparse calls them in its messages.
std::string program_name(Verb verb, const std::string& typed) {
  return verb == Verb::kTorchrun ? "torchrun" : verb == Verb::kLaunch ? "launch.py" : typed;
}

}  // namespace

int run_command(Verb verb, const std::string& typed, const std::vector<std::string>& arguments) {
  const std::string program = program_name(verb, typed);
  auto parsed = parse_arguments(verb, arguments, environment_variable);
  const auto help = parsed ? asks_for_help(parsed->immediate) : std::nullopt;
  if (verb == Verb::kLaunch && !help) warn_of_deprecation(environment_variable);
  if (dialect_of(verb) == Dialect::kArgparse) {
    if (auto error = malformed_flag_variable(verb, environment_variable))
      return planning_failure(verb, program, *error);
  }
  if (!parsed) return usage_failure(verb, program, parsed.error());
  if (help) return print(verb_help(verb, typed, *help, style_of(STDOUT_FILENO)));
  if (parsed->immediate) return print_torchrun_completion(program, parsed->text(Opt::kPrintCompletion));
  auto asking = make_request(verb, *parsed, environment_variable);
  job::Request request = asking ? asking->request : job::Request();
  if (request.record.given()) request.command_line = command_line(typed, arguments);
  plan::Facts facts = own_facts();
  // Of several tasks on a node the first one alone says what is wrong.
  return run_with_mates(verb, typed, request, facts, [&] {
    if (!asking) return planning_failure(verb, program, asking.error());
    auto plan = make_plan(request, facts);
    if (!plan) return planning_failure(verb, program, plan.error());
    plan->notes.insert(plan->notes.begin(), asking->notes.begin(), asking->notes.end());
    return carry_out(verb, typed, request, facts, *plan, parsed->flag(Opt::kJson));
  });
}

std::vector<std::string> command_line(const std::string& typed, const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (std::string_view word : split(typed, ' ')) words.emplace_back(word);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

int run_with_mates(Verb verb, const std::string& typed, const job::Request& request, const plan::Facts& facts,
                   const std::function<int()>& run) {
  const std::string program = program_name(verb, typed);
  constexpr auto kAppearTime = std::chrono::seconds(60), kTellTime = std::chrono::seconds(10);
  const auto& here = facts.here;
  if (!plan::surroundings_count(request) || !here || !*here || (*here)->tasks_here < 2) return run();
  const std::string name = cluster::slurm::mates_name(**here);
  if ((*here)->local_task > 0) {
    auto code = cluster::slurm::wait_for_first_task(name, Deadline::in(kAppearTime));
    return code ? *code : planning_failure(verb, program, code.error());
  }
  auto mates = cluster::slurm::NodeMates::open(name, (*here)->tasks_here - 1);
  if (!mates) return planning_failure(verb, program, mates.error());
  if (auto problem = cluster::slurm::take_cores_of_mates(**here)) say_note(verb, {LogLevel::kWarning, *problem});
  const int code = run();
  mates->tell(code, Deadline::in(kTellTime));
  return code;
}

int carry_out(Verb verb, const std::string& typed, const job::Request& request, const plan::Facts& facts,
              plan::JobPlan& plan, bool json) {
  const std::string program = program_name(verb, typed);
  if (json && !request.dry_run && !plan.env_diff)
    return planning_failure(verb, program,
                            {ErrorKind::kUsage, "--json needs --dry-run or --env-diff",
                             "for what happened use --report FILE and --events FILE"});
  auto* alone = std::get_if<job::JobSpec>(&plan.start);
  if (request.dry_run) {
    if (alone == nullptr) return print(dry_run_nodes(plan, facts.environment, json));
    auto text = dry_run(plan, json);
    return text ? print(*text) : planning_failure(verb, program, text.error());
  }
  say_notes(verb, plan);
  if (auto* fan_out = std::get_if<launcher::FanOut>(&plan.start)) {
    auto run = [&] { return run_from_here(*fan_out, plan.for_nodes); };
    return plan.env_diff ? env_diff(*fan_out, run, json) : run();
  }
  if (plan.env_diff) return env_diff_alone(plan.job(), json);
  const auto at_end = start_record(plan, request.command_line);
  if (alone != nullptr) return launcher::run_alone(*alone, at_end);
  auto& symmetric = std::get<launcher::Symmetric>(plan.start);
  symmetric.at_end = at_end;
  auto code = launcher::run_symmetric(std::move(symmetric));
  return code ? *code : planning_failure(verb, program, code.error());
}

}  // namespace muster::cli
