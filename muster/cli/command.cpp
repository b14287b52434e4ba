#include "muster/cli/command.h"

#include "muster/base/usage_error.h"
#include "muster/cli/script.h"
#include "muster/process/python.h"

namespace muster::cli {
namespace {

// `python` and its own words, which are taken as they are; behind them PROGRAM and its arguments.
WorkerCommand by_words(const Parsed& parsed, std::vector<std::string> words) {
  WorkerCommand worker;
  worker.python = worker.command.program = words[0];
  worker.command.template_from = words.size();
  worker.command.argv = std::move(words);
  worker.command.argv.insert(worker.command.argv.end(), parsed.words.begin(), parsed.words.end());
  worker.command.entrypoint = parsed.words[0];
  return worker;
}

Result<WorkerCommand> by_python(const Parsed& parsed, const Facts& facts, bool module) {
  MUSTER_TRY(std::string python, facts.find_python());
  std::vector<std::string> words = {python, "-u"};
  if (module) words.emplace_back("-m");
  return by_words(parsed, std::move(words));
}

Result<WorkerCommand> by_run_path(const Parsed& parsed, const Facts& facts) {
  MUSTER_TRY(std::string python, facts.find_python());
  return by_words(parsed, words_for_run_path(python));
}

WorkerCommand by_itself(const Parsed& parsed, std::string program) {
  WorkerCommand worker;
  worker.command.program = std::move(program);
  worker.command.argv = parsed.words;
  worker.command.template_from = 1;  // the program itself is taken as it is
  worker.command.entrypoint = parsed.words[0];
  return worker;
}

Result<WorkerCommand> directly(const Parsed& parsed, const Facts& facts) {
  MUSTER_TRY(std::string program, facts.find_program(parsed.words[0]));
  if (facts.path_kind(program) == PathKind::kMusterScript)
    return Error{ErrorKind::kUsage,
                 fmt::format("the first line of '{}' starts muster, and --no-python would execute it: it would start "
                             "itself without end",
                             parsed.words[0]),
                 "leave --no-python out, and Python runs it"};
  return by_itself(parsed, program);
}

// Python itself would say so only after the start, and with the code of a usage error.
Result<void> check_script(const Parsed& parsed, const Facts& facts) {
  const std::string& name = parsed.words[0];
  const bool path = name.find('/') != std::string::npos || name.ends_with(".py");
  switch (facts.path_kind(name)) {
    case PathKind::kMissing:
      return Error{ErrorKind::kNotFound, fmt::format("'{}' does not exist", name),
                   path ? "check the path; relative ones start at the current directory"
                        : "it is neither a file here nor a program on PATH; for a module add -m"};
    case PathKind::kForbidden:
      return process::no_access(name);
    case PathKind::kDirectory:
      return Error{ErrorKind::kNotExecutable, fmt::format("'{}' is a directory without a __main__.py", name),
                   "name the script itself"};
    case PathKind::kUnreadable:
      return Error{ErrorKind::kNotExecutable, fmt::format("'{}' cannot be read: permission denied", name),
                   fmt::format("chmod +r {}", name)};
    default:
      return {};
  }
}

// A script that Python can read.
Result<WorkerCommand> by_script(const Parsed& parsed, const Facts& facts) {
  MUSTER_TRY_VOID(check_script(parsed, facts));
  return by_python(parsed, facts, false);
}

// A program on PATH.
Result<WorkerCommand> by_kind_of_found(const Parsed& parsed, const Facts& facts, const std::string& program) {
  if (facts.path_kind(program) != PathKind::kMusterScript) return by_itself(parsed, program);
  Parsed script = parsed;
  script.words[0] = program;
  return by_python(script, facts, false);
}

// `muster run`: what the program looks like decides.
Result<WorkerCommand> by_its_kind(const Parsed& parsed, const Facts& facts) {
  const std::string& name = parsed.words[0];
  const bool plain_name = name.find('/') == std::string::npos;
  switch (facts.path_kind(name)) {
    case PathKind::kMissing:
      if (plain_name && !name.ends_with(".py")) {
        if (auto program = facts.find_program(name)) return by_kind_of_found(parsed, facts, *program);
      }
      return by_script(parsed, facts);
    case PathKind::kExecutable:
      if (!name.ends_with(".py")) return by_itself(parsed, plain_name ? "./" + name : name);
      return by_python(parsed, facts, false);
    case PathKind::kMusterScript:
    case PathKind::kDirectory:
    case PathKind::kForbidden:
    case PathKind::kUnreadable:
    case PathKind::kPackage:
    case PathKind::kZip:
    case PathKind::kFile:
      return by_script(parsed, facts);
  }
  return usage_error("'{}' cannot be run", name);
}

}  // namespace

Result<WorkerCommand> worker_command(Verb verb, const Parsed& parsed, const Facts& facts) {
  const bool module = parsed.flag(Opt::kModule);
  if (parsed.flag(Opt::kRunPath)) {
    if (verb == Verb::kRun) MUSTER_TRY_VOID(check_script(parsed, facts));
    MUSTER_TRY(WorkerCommand worker, by_run_path(parsed, facts));
    if (verb != Verb::kRun) worker.command.entrypoint = "run_script_path";
    return worker;
  }
  if (parsed.flag(Opt::kNoPython)) {
    if (module) return Error{ErrorKind::kUsage, "--no-python and --module exclude each other", "leave one of them out"};
    return directly(parsed, facts);
  }
  if (module) return by_python(parsed, facts, true);
  if (verb == Verb::kRun) return by_its_kind(parsed, facts);
  MUSTER_TRY(WorkerCommand worker, by_python(parsed, facts, false));
  // torchrun names another interpreter than its own as the program that failed.
  if (facts.getenv("PYTHON_EXEC")) worker.command.entrypoint = worker.python;
  return worker;
}

Result<WorkerCommand> script_command(const Parsed& parsed, const Facts& facts, const std::string& file) {
  MUSTER_TRY(std::string python, facts.find_python());
  return by_words(parsed, words_for_file(python, file));
}

}  // namespace muster::cli
