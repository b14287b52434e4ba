#include "muster/cli/command.h"

namespace muster::cli {
namespace {

Result<WorkerCommand> by_python(const Parsed& parsed, const Facts& facts, bool module) {
  MUSTER_TRY(std::string python, facts.find_python());
  WorkerCommand worker;
  worker.python = python;
  worker.command.program = python;
  worker.command.argv = {python, "-u"};
  if (module) worker.command.argv.emplace_back("-m");
  worker.command.argv.insert(worker.command.argv.end(), parsed.words.begin(), parsed.words.end());
  worker.command.template_from = 1;
  worker.command.entrypoint = parsed.words[0];
  return worker;
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
  return by_itself(parsed, program);
}

// A script that Python can read; Python itself would say so only after the start, and with the code of a usage error.
Result<WorkerCommand> by_script(const Parsed& parsed, const Facts& facts) {
  const std::string& name = parsed.words[0];
  const bool path = name.find('/') != std::string::npos || name.ends_with(".py");
  switch (facts.path_kind(name)) {
    case PathKind::kMissing:
      return Error{ErrorKind::kNotFound, fmt::format("'{}' does not exist", name),
                   path ? "check the path; relative ones start at the current directory"
                        : "it is no file here and no program on PATH; for a module add -m"};
    case PathKind::kDirectory:
      return Error{ErrorKind::kNotExecutable, fmt::format("'{}' is a directory without a __main__.py", name),
                   "name the script itself"};
    case PathKind::kUnreadable:
      return Error{ErrorKind::kNotExecutable, fmt::format("'{}' may not be read", name),
                   fmt::format("chmod +r {}", name)};
    default:
      return by_python(parsed, facts, false);
  }
}

// `muster run`: what the program looks like decides.
Result<WorkerCommand> by_its_kind(const Parsed& parsed, const Facts& facts) {
  const std::string& name = parsed.words[0];
  const bool plain_name = name.find('/') == std::string::npos;
  switch (facts.path_kind(name)) {
    case PathKind::kMissing:
      if (plain_name && !name.ends_with(".py")) {
        if (auto program = facts.find_program(name)) return by_itself(parsed, *program);
      }
      return by_script(parsed, facts);
    case PathKind::kExecutable:
      if (!name.ends_with(".py")) return by_itself(parsed, plain_name ? "./" + name : name);
      return by_python(parsed, facts, false);
    case PathKind::kDirectory:
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
    if (verb == Verb::kRun) return by_script(parsed, facts);
    MUSTER_TRY(WorkerCommand worker, by_python(parsed, facts, false));
    worker.command.entrypoint = "run_script_path";
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

}  // namespace muster::cli
