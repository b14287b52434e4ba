#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/cli/commands.h"
#include "muster/cli/completion.h"
#include "muster/cli/dry_run.h"
#include "muster/cli/env_diff.h"
#include "muster/cli/help.h"
#include "muster/cli/job_options.h"
#include "muster/cli/job_record.h"
#include "muster/cli/mode.h"
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

void say_note(Verb verb, const Note& note) {
  const bool ours = dialect_of(verb) == Dialect::kMuster;
  const std::string prefix = ours ? std::string(log_prefix(note.level)) : output::torchrun_prefix(note.level);
  for (std::string_view line : split(note.text, '\n')) say(fmt::format("{}{}\n", prefix, escaped(line)));
}

void say_notes(Verb verb, const JobPlan& plan) {
  for (const Note& note : plan.notes)
    if (note.level >= plan.job.log_threshold) say_note(verb, note);
}

int print_torchrun_completion(const std::string& program, const std::string& shell) {
  auto known = parse_shell(shell);
  if (!known) {
    say(fmt::format("{}: error: there is no completion for {}; use bash or zsh\n", program, shell));
    return kTorchrunFailure;
  }
  return print(completion_script(*known, "torchrun"));
}

// Agents read the same command line, with the id that was chosen here in front of it.
int run_from_here(launcher::FanOut& spec, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& forwarded) {
  std::error_code error;
  spec.start.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) {
    say(fmt::format("muster: error: /proc/self/exe: {}\n", error.message()));
    return kMusterFailed;
  }
  spec.description.directory = std::filesystem::current_path(error).string();
  if (error)
    return usage_failure(
        Verb::kRun, "",
        {ErrorKind::kUsage,
         fmt::format("agents start in this working directory, which cannot be found: {}", error.message()),
         "cd to one that exists"});
  spec.description.arguments = forwarded;
  spec.description.arguments.push_back("--rdzv-id=" + spec.job.run_id);
  spec.description.arguments.insert(spec.description.arguments.end(), arguments.begin(), arguments.end());
  if (spec.adapter->agents_ask()) {
    auto chosen = rendezvous::choose_secret();
    if (!chosen) {
      say(fmt::format("muster: error: {}\n", chosen.error().text()));
      return exit_code(chosen.error());
    }
    spec.secret = *std::move(chosen);
  }
  spec.description.columns = {terminal_columns(STDOUT_FILENO), terminal_columns(STDERR_FILENO)};
  return launcher::run_fan_out(spec);
}

// As argparse calls them in its messages.
std::string program_name(Verb verb, const std::string& typed) {
  return verb == Verb::kTorchrun ? "torchrun" : verb == Verb::kLaunch ? "launch.py" : typed;
}

}  // namespace

int run_command(Verb verb, const std::string& typed, const std::vector<std::string>& arguments) {
  const std::string program = program_name(verb, typed);
  Facts facts = real_facts();
  auto parsed = parse_arguments(verb, arguments, facts.getenv);
  const auto help = parsed ? asks_for_help(parsed->immediate) : std::nullopt;
  if (verb == Verb::kLaunch && !help) warn_of_deprecation(facts.getenv);
  if (dialect_of(verb) == Dialect::kArgparse) {
    if (auto error = malformed_flag_variable(verb, facts.getenv)) return planning_failure(verb, program, *error);
  }
  if (!parsed) return usage_failure(verb, program, parsed.error());
  if (help) return print(verb_help(verb, typed, *help, style_of(STDOUT_FILENO)));
  if (parsed->immediate) return print_torchrun_completion(program, parsed->text(Opt::kPrintCompletion));
  return run_with_mates(verb, typed, *parsed, facts, [&] {
    auto plan = plan_job(verb, *parsed, facts);
    if (!plan) return planning_failure(verb, program, plan.error());
    return carry_out(verb, typed, *parsed, facts, *plan, arguments);
  });
}

int run_with_mates(Verb verb, const std::string& typed, const Parsed& parsed, const Facts& facts,
                   const std::function<int()>& run) {
  const std::string program = program_name(verb, typed);
  constexpr auto kAppearTime = std::chrono::seconds(60), kTellTime = std::chrono::seconds(10);
  if (!surroundings_count(verb, parsed)) return run();
  auto here = cluster::detect(facts.getenv, facts.read_file);
  if (!here || !*here || (*here)->tasks_here < 2) return run();
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

int carry_out(Verb verb, const std::string& typed, const Parsed& parsed, const Facts& facts, JobPlan& plan,
              const std::vector<std::string>& arguments) {
  const std::string program = program_name(verb, typed);
  if (parsed.flag(Opt::kJson) && !parsed.flag(Opt::kDryRun) && !plan.env_diff)
    return planning_failure(verb, program,
                            {ErrorKind::kUsage, "--json needs --dry-run or --env-diff",
                             "for what happened use --report FILE and --events FILE"});
  const bool several = !std::holds_alternative<std::monostate>(plan.nodes);
  if (parsed.flag(Opt::kDryRun)) {
    if (several) return print(dry_run_nodes(plan, facts, parsed.flag(Opt::kJson)));
    auto text = dry_run(plan, facts, parsed.flag(Opt::kJson));
    return text ? print(*text) : planning_failure(verb, program, text.error());
  }
  say_notes(verb, plan);
  if (auto* fan_out = std::get_if<launcher::FanOut>(&plan.nodes)) {
    auto run = [&] { return run_from_here(*fan_out, arguments, plan.forwarded); };
    return plan.env_diff ? env_diff(*fan_out, run, parsed.flag(Opt::kJson)) : run();
  }
  if (plan.env_diff) return env_diff_alone(plan.job, parsed.flag(Opt::kJson));
  const auto at_end = start_record(plan, typed, arguments);
  if (auto* symmetric = std::get_if<launcher::Symmetric>(&plan.nodes)) {
    symmetric->at_end = at_end;
    auto code = launcher::run_symmetric(std::move(*symmetric));
    return code ? *code : planning_failure(verb, program, code.error());
  }
  return launcher::run_alone(plan.job, at_end);
}

}  // namespace muster::cli
