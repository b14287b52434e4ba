#include "muster/base/usage_error.h"
#include "muster/plan/known.h"
#include "muster/plan/script.h"
#include "muster/process/python.h"

// What a worker executes. PROGRAM as the front end understands it:
//   run                  x.py, zipapp, package directory, script whose first line starts muster -> python -u;
//                        an executable (here or on PATH) -> itself; anything else -> python -u
//   torchrun, launch     python -u, always
//   --no-python          the program itself, found through PATH;  -m  python -u -m;  --run-path  python -u
namespace muster::plan {
namespace {

using job::Request;

// A command, and by which Python (empty: by none).
struct WorkerCommand {
  job::Command command;
  std::string python;
};

bool is_shown(const container::Spec& spec, const std::string& directory, const std::string& path) {
  if (!path.starts_with('/')) return spec.directory == directory;
  std::vector<container::Mount> mounts = spec.mounts;
  const size_t before = mounts.size();
  container::show(mounts, path);
  return mounts.size() == before;
}

// What cannot be seen from here is judged by its name.
PathKind kind_by_name(const std::string& path) {
  if (path.ends_with(".py")) return PathKind::kFile;
  return path.find('/') == std::string::npos ? PathKind::kMissing : PathKind::kExecutable;
}

// Finds programs where the workers run: on the node, or in a container.
class Place {
 public:
  Place(const Known& known, const container::Prepared* inside) : known_(known), inside_(inside) {}

  Result<std::string> python() const {
    if (inside_ == nullptr) return known_.find<std::string>(Topic::kPython);
    if (!inside_->python.empty()) return inside_->python;
    return Error{ErrorKind::kUsage, "the image has neither python nor python3 on its PATH",
                 "set PYTHON_EXEC to the one that it has, or run the program itself with --no-python"};
  }
  Result<std::string> program(const std::string& name) const {
    return inside_ == nullptr ? known_.find_program(name) : name;
  }
  PathKind kind(const std::string& path) const {
    const bool seen = inside_ == nullptr || is_shown(inside_->plan.spec, known_.plain().working_directory, path);
    return seen ? known_.path_kind(path) : kind_by_name(path);
  }
  std::optional<process::TorchVersion> torch(const std::string& python) const {
    if (python.empty() || inside_ != nullptr) return std::nullopt;
    return known_.get<std::optional<process::TorchVersion>>(Topic::kTorch, python);
  }

 private:
  const Known& known_;
  const container::Prepared* inside_;
};

// `python` and its own words, which are taken as they are; behind them PROGRAM and its arguments.
WorkerCommand by_words(std::vector<std::string> words, const std::vector<std::string>& program) {
  WorkerCommand worker;
  worker.python = worker.command.program = words[0];
  worker.command.template_from = words.size();
  worker.command.argv = std::move(words);
  worker.command.argv.insert(worker.command.argv.end(), program.begin(), program.end());
  worker.command.entrypoint = program[0];
  return worker;
}

Result<WorkerCommand> by_python(const std::vector<std::string>& program, const Place& place, bool module = false) {
  MUSTER_TRY(std::string python, place.python());
  std::vector<std::string> words = {python, "-u"};
  if (module) words.emplace_back("-m");
  return by_words(std::move(words), program);
}

WorkerCommand by_itself(const Request& request, std::string program) {
  WorkerCommand worker;
  worker.command.program = std::move(program);
  worker.command.argv = request.words;
  worker.command.template_from = 1;  // the program itself is taken as it is
  worker.command.entrypoint = request.words[0];
  return worker;
}

Result<WorkerCommand> directly(const Request& request, const Place& place) {
  MUSTER_TRY(std::string program, place.program(request.words[0]));
  if (place.kind(program) == PathKind::kMusterScript)
    return Error{ErrorKind::kUsage,
                 fmt::format("the first line of '{}' starts muster, and --no-python would execute it: it would start "
                             "itself without end",
                             request.words[0]),
                 "leave --no-python out, and Python runs it"};
  return by_itself(request, program);
}

// Python itself would say so only after the start, and with the code of a usage error.
Result<void> check_script(const std::string& name, const Place& place) {
  const bool path = name.find('/') != std::string::npos || name.ends_with(".py");
  switch (place.kind(name)) {
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

// `muster run`: what the program looks like decides.
Result<WorkerCommand> by_its_kind(const Request& request, const Place& place) {
  const std::string& name = request.words[0];
  const bool plain_name = name.find('/') == std::string::npos;
  const bool script = name.ends_with(".py");
  const PathKind kind = place.kind(name);
  if (kind == PathKind::kMissing && plain_name && !script) {
    if (auto program = place.program(name)) {
      if (place.kind(*program) != PathKind::kMusterScript) return by_itself(request, *program);
      std::vector<std::string> words = request.words;
      words[0] = *program;
      return by_python(words, place);
    }
  }
  if (kind == PathKind::kExecutable && !script) return by_itself(request, plain_name ? "./" + name : name);
  if (kind != PathKind::kExecutable) MUSTER_TRY_VOID(check_script(name, place));
  return by_python(request.words, place);
}

Result<WorkerCommand> worker_command(const Request& request, const Place& place, bool python_given) {
  if (request.run_path) {
    if (request.ours()) MUSTER_TRY_VOID(check_script(request.words[0], place));
    MUSTER_TRY(std::string python, place.python());
    WorkerCommand worker = by_words(words_for_run_path(python), request.words);
    if (!request.ours()) worker.command.entrypoint = "run_script_path";
    return worker;
  }
  if (request.no_python) {
    if (request.module)
      return Error{ErrorKind::kUsage, "--no-python and --module exclude each other", "leave one of them out"};
    return directly(request, place);
  }
  if (request.module) return by_python(request.words, place, true);
  if (request.ours()) return by_its_kind(request, place);
  MUSTER_TRY(WorkerCommand worker, by_python(request.words, place));
  // torchrun names another interpreter than its own as the program that failed.
  if (python_given) worker.command.entrypoint = worker.python;
  return worker;
}

// The text of a program that not every node has (script.h). What comes on stdin is read to its end.
Result<std::optional<std::string>> carried_script(const Request& request, const std::string& host, const Known& known) {
  const std::string& program = request.words[0];
  const bool spooled = !request.module && !request.no_python && is_spooled(program, known.plain().environment);
  if (!script_on_stdin(request) && !spooled) return std::optional<std::string>();
  if (spooled && known.path_kind(program) == PathKind::kMissing)
    return Error{ErrorKind::kNotFound,
                 fmt::format("'{}' does not exist on {}: it is Slurm's copy of the batch script, which only the job's "
                             "first node has",
                             program, host),
                 "if the script's first line starts muster with srun, leave srun out: muster starts the nodes itself"};
  MUSTER_TRY(std::string script, spooled ? known.file(program) : known.find<std::string>(Topic::kStdin));
  if (script.empty())
    return Error{ErrorKind::kUsage, fmt::format("'{}': the script is empty", program),
                 spooled ? "" : "write muster run - <train.py, or name the script"};
  if (script.size() > kLongestScript)
    return Error{ErrorKind::kUsage,
                 fmt::format("'{}': the script has more than the {} MiB that can be sent to the nodes", program,
                             kLongestScript >> 20),
                 "put it into a file that every node can read, and name that"};
  return std::optional(std::move(script));
}

}  // namespace

// `muster run -`
bool script_on_stdin(const Request& request) {
  const bool other = request.module || request.no_python || request.run_path;
  return request.ours() && !other && !request.words.empty() && request.words[0] == kStdinProgram;
}

Result<Program> plan_program(const Request& request, const Position& position, const container::Prepared* inside,
                             const std::string& host, const Known& known) {
  Program program;
  job::Command& command = program.command;
  if (request.env_diff) {
    command.entrypoint = "--env-diff";
    return program;
  }
  if (request.inject_local_rank && request.no_python)
    return usage_error("When using the '--no-python' flag, you must also set the '--use-env' flag.");
  if (position.agent != nullptr) {
    program.script = position.agent->script;
  } else {
    MUSTER_TRY(program.script, carried_script(request, host, known));
  }
  if (position.elsewhere) {
    command.program = command.entrypoint = request.words[0];
    command.argv = request.words;
    if (request.module) command.argv.insert(command.argv.begin(), "-m");
    return program;
  }
  const Place place(known, inside);
  WorkerCommand worker;
  if (program.script) {
    MUSTER_TRY(const std::string python, place.python());
    const std::string file = script_file(known.temporary_directory(), known.plain().uuid, request.words[0]);
    worker = by_words(words_for_file(python, file), request.words);
    worker.command.script = {file, *program.script};
  } else {
    auto found = worker_command(request, place, known.variable("PYTHON_EXEC").has_value());
    if (!found) return with_hint_of_hosts(request, std::move(found).error());
    worker = *std::move(found);
  }
  command = std::move(worker.command);
  const auto torch = place.torch(worker.python);
  if (torch) program.torch_version = torch->text;
  program.old_torch = torch && (torch->major < 1 || (torch->major == 1 && torch->minor < 13));
  if (request.inject_local_rank) {
    command.local_rank_position = command.argv.size() - request.words.size() + 1;
    command.local_rank_flag = torch && torch->major < 2 ? "--local_rank" : "--local-rank";
  }
  return program;
}

}  // namespace muster::plan
