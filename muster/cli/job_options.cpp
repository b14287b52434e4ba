#include "muster/cli/job_options.h"

#include <algorithm>
#include <csignal>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cli/command.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/node_environment.h"
#include "muster/cli/script.h"
#include "muster/cli/values.h"
#include "muster/job/worker_env.h"
#include "muster/net/address.h"
#include "muster/process/cpus.h"
#include "muster/process/signals.h"

namespace muster::cli {
namespace {

// What torchrun's LOGLEVEL asks for; WARNING where it asks for nothing known.
LogLevel torch_log_level(std::string_view name) {
  if (name == "DEBUG") return LogLevel::kDebug;
  if (name == "INFO") return LogLevel::kInfo;
  return name == "ERROR" || name == "CRITICAL" ? LogLevel::kError : LogLevel::kWarning;
}

}  // namespace

Result<JobPlan> Planner::plan() {
  job_.flavor = verb_ == Verb::kRun      ? job::Flavor::kMuster
                : verb_ == Verb::kLaunch ? job::Flavor::kLaunch
                                         : job::Flavor::kTorchrun;
  job_.host = assignment_ ? assignment_->host : net::hostname();
  plan_log_level();
  MUSTER_TRY_VOID(refuse_deep_nesting());
  MUSTER_TRY_VOID(refuse_unsupported());
  MUSTER_TRY_VOID(plan_events());
  MUSTER_TRY_VOID(check_hosts_in_front());
  note_options_behind();
  MUSTER_TRY_VOID(plan_nodes());
  MUSTER_TRY_VOID(share_out_processes());
  MUSTER_TRY_VOID(plan_env_diff());
  MUSTER_TRY_VOID(plan_record());
  MUSTER_TRY_VOID(plan_set_up());
  check_temporary_directory();
  MUSTER_TRY_VOID(plan_container());
  MUSTER_TRY_VOID(plan_workers());
  MUSTER_TRY_VOID(plan_command());
  MUSTER_TRY_VOID(plan_rendezvous());
  plan_store();
  MUSTER_TRY_VOID(plan_failures());
  MUSTER_TRY_VOID(plan_output());
  MUSTER_TRY_VOID(plan_stdin());
  plan_environment();
  MUSTER_TRY_VOID(check_descriptors());
  finish_nodes();
  say_decisions();
  return std::move(plan_);
}

// "train.py --nproc-per-node 2": the program gets it. A program that starts others may have such options of its own.
void Planner::note_options_behind() {
  if (!ours_ || parsed_.words.empty() || !parsed_.words[0].ends_with(".py")) return;
  for (Opt id : parsed_.behind_program) {
    if (parsed_.given(id)) continue;
    const std::string& program = parsed_.words[0];
    note(LogLevel::kWarning, fmt::format("{0} comes after {1}, so {1} gets it and muster does not; options of muster "
                                         "come before: muster run {0}{2} {1}",
                                         dashed(option(id)), program,
                                         option(id).takes_value() ? fmt::format(" {}", option(id).metavar) : ""));
  }
}

Error Planner::about(Opt id, Error error) const {
  const Option& o = option(id);
  const bool from_variable = parsed_.setting(id).source == Source::kEnvironment;
  error.message = fmt::format("{}: {}", from_variable ? pet_variable(o) : dashed(o), error.message);
  return error;
}

Result<int64_t> Planner::integer(Opt id, int64_t min, int64_t max) const {
  auto value = parse_int(text(id));
  if (!value || *value < min || *value > max)
    return about(id, {ErrorKind::kUsage, fmt::format("{} is out of range", text(id)),
                      max == min        ? fmt::format("only {} is possible here", min)
                      : max < INT32_MAX ? fmt::format("write {} to {}", min, max)
                                        : fmt::format("write {} or more", min)});
  return *value;
}

Result<Duration> Planner::seconds(Opt id, double min) const {
  constexpr double kMost = 1e8;
  const double value = python_float(text(id)).value_or(-1);
  if (!(value >= min && value <= kMost))
    return about(id, {ErrorKind::kUsage, fmt::format("{} is out of range", text(id)),
                      fmt::format("write {} or more seconds", min)});
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

void Planner::plan_log_level() {
  if (!ours_) job_.log_threshold = torch_log_level(facts_.getenv("LOGLEVEL").value_or(""));
  if (parsed_.flag(Opt::kQuiet)) job_.log_threshold = LogLevel::kWarning;
  if (parsed_.flag(Opt::kVerbose)) job_.log_threshold = LogLevel::kDebug;
}

Result<void> Planner::refuse_unsupported() {
  if (parsed_.has(Opt::kLogsSpecs))
    return Error{ErrorKind::kUsage, "--logs-specs names a Python class inside torchrun, which muster does not load",
                 "use --log-dir, --redirects, --tee and --log-line-prefix-template"};
  const std::string& backend = text(Opt::kRdzvBackend);
  if (!standalone() && backend != "static" && backend != "c10d")
    return about(Opt::kRdzvBackend, {ErrorKind::kUsage, fmt::format("'{}' is not supported", backend),
                                     "use c10d, which needs no server of its own"});
  if (ours_ && parsed_.given(Opt::kStartMethod))
    note(LogLevel::kInfo, "--start-method has no effect: every worker is a process of its own, started afresh");
  return {};
}

// A program that starts muster for itself would do so without end, and each level multiplies its processes.
Result<void> Planner::refuse_deep_nesting() const {
  constexpr int kDeepest = 4;
  const int depth = job::nesting_depth(facts_.environment);
  if (assignment_ || depth < kDeepest) return {};
  return Error{ErrorKind::kUsage,
               fmt::format("this muster runs inside of {} others, and each starts workers of its own: the program "
                           "probably starts muster for itself",
                           depth),
               "look at what PROGRAM runs; if it is meant, unset MUSTER_DEPTH in it"};
}

Result<void> Planner::plan_events() {
  const std::string& handler = text(Opt::kEventLogHandler);
  if (handler != "null" && handler != "console" && handler != "dynamic_rendezvous")
    return about(Opt::kEventLogHandler, {ErrorKind::kUsage, fmt::format("'{}' is not known", handler),
                                         ours_ ? "use null or console, or --events FILE" : "use null or console"});
  job_.events_on_console = handler == "console";
  job_.events_file = text(Opt::kEvents);
  return {};
}

// Simulated nodes share those of the machine. (The launcher speaks of the first.)
process::GpuCount Planner::gpus() const {
  const process::GpuCount all = facts_.gpus();
  const int nodes = simulated_nodes();
  return nodes > 1 ? process::share_of(all, assignment_ ? assignment_->position % nodes : 0, nodes) : all;
}

Result<int> Planner::count(Countable what) {
  if (what == Countable::kCpu) return facts_.affinity_cpus();
  const process::GpuCount gpus = this->gpus();
  if (gpus.count > 0) return gpus.count;
  if (what == Countable::kAuto) return facts_.affinity_cpus();
  std::string seen = gpus.source.empty() ? "this machine shows none" : gpus.source + " says so";
  return about(Opt::kNprocPerNode,
               {ErrorKind::kUsage, fmt::format("there is no GPU ({})", seen), "give a number, or auto"});
}

// Where the scheduler was asked for several processes per node, and there is no GPU to count workers by.
void Planner::note_fewer_workers() {
  if (!here_ || facts_.gpus().count > 0) return;
  const auto nodes = static_cast<int>(here_->nodes.size());
  if (here_->tasks_here > 1 && here_->node_rank.value_or(0) == 0)
    note(LogLevel::kInfo,
         fmt::format("the {0} tasks that srun started {1} become 1 worker{2}: muster starts one per GPU, and there is "
                     "none; for {0} workers{2} write muster run --nproc-per-node {0}",
                     here_->tasks_here, nodes > 1 ? "on each node" : "on this node", nodes > 1 ? " per node" : ""));
  if (here_->role == cluster::Role::kHead && here_->slots > nodes)
    note(LogLevel::kInfo,
         fmt::format("PBS gives {} slots on {} (lines of its nodefile), and they become {}: muster starts one per GPU, "
                     "and there is none; for more write muster run --nproc-per-node {}",
                     here_->slots, nodes > 1 ? fmt::format("{} nodes", nodes) : "1 node",
                     nodes > 1 ? "1 worker per node" : "1 worker",
                     here_->slots % nodes == 0 ? std::to_string(here_->slots / nodes) : "N"));
}

Result<void> Planner::plan_workers() {
  if (plan_.env_diff) {
    job_.workers = 1;
  } else if (assignment_ && assignment_->workers) {
    job_.workers = *assignment_->workers;
  } else if (ours_ && !parsed_.given(Opt::kNprocPerNode)) {
    job_.workers = elsewhere() ? 1 : std::max(gpus().count, 1);
    if (wishes_.ranked) note_fewer_workers();
  } else {
    auto wanted = parse_worker_count(text(Opt::kNprocPerNode));
    if (!wanted) return about(Opt::kNprocPerNode, wanted.error());
    if (const int* number = std::get_if<int>(&*wanted)) {
      job_.workers = *number;
      plan_.workers_given = true;
    } else if (!elsewhere()) {
      MUSTER_TRY(job_.workers, count(std::get<Countable>(*wanted)));
    }
  }
  job_.ranked = wishes_.ranked;
  job_.role = text(Opt::kRole);
  job_.virtual_local_rank = parsed_.flag(Opt::kVirtualLocalRank);
  if (parsed_.has(Opt::kNumaBinding)) job_.binding = process::parse_binding(text(Opt::kNumaBinding));
  return {};
}

// `muster run -`
bool Planner::script_on_stdin() const {
  const bool other = parsed_.flag(Opt::kModule) || parsed_.flag(Opt::kNoPython) || parsed_.flag(Opt::kRunPath);
  return ours_ && !other && !parsed_.words.empty() && parsed_.words[0] == kStdinProgram;
}

// The text of a program that not every node has (script.h). What comes on stdin is read to its end.
Result<std::optional<std::string>> Planner::carried_script() {
  if (assignment_) return assignment_->script;
  const std::string& program = parsed_.words[0];
  const bool spooled =
      !parsed_.flag(Opt::kModule) && !parsed_.flag(Opt::kNoPython) && is_spooled(program, facts_.getenv);
  if (!script_on_stdin() && !spooled) return std::optional<std::string>();
  if (spooled && facts_.path_kind(program) == PathKind::kMissing)
    return Error{ErrorKind::kNotFound,
                 fmt::format("'{}' does not exist on {}: it is Slurm's copy of the batch script, which only the job's "
                             "first node has",
                             program, job_.host),
                 "if the script's first line starts muster with srun, leave srun out: muster starts the nodes itself"};
  MUSTER_TRY(std::string script, spooled ? facts_.read_file(program) : facts_.read_stdin());
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

Result<void> Planner::plan_command() {
  if (plan_.env_diff) {
    job_.command.entrypoint = "--env-diff";
    return {};
  }
  const bool inject = verb_ == Verb::kLaunch && !parsed_.flag(Opt::kUseEnv);
  if (inject && parsed_.flag(Opt::kNoPython))
    return usage_error("When using the '--no-python' flag, you must also set the '--use-env' flag.");
  MUSTER_TRY(std::optional<std::string> script, carried_script());
  if (launcher::FanOut* spec = fan_out()) spec->description.script = script;
  if (elsewhere()) {
    job_.command.program = job_.command.entrypoint = parsed_.words[0];
    job_.command.argv = parsed_.words;
    if (parsed_.flag(Opt::kModule)) job_.command.argv.insert(job_.command.argv.begin(), "-m");
    return {};
  }
  const Facts& facts = inside_ ? *inside_ : facts_;
  const std::string file =
      script ? script_file(temporary_directory_of_node(), facts_.uuid(), parsed_.words[0]) : std::string();
  auto found = script ? script_command(parsed_, facts, file) : worker_command(verb_, parsed_, facts);
  if (!found) return with_hint_of_hosts(std::move(found).error());
  WorkerCommand worker = *std::move(found);
  job_.command = std::move(worker.command);
  if (script) job_.command.script = {file, *std::move(script)};
  std::optional<process::TorchVersion> torch;
  if (!worker.python.empty()) torch = facts.find_torch(worker.python);
  if (torch) job_.torch_version = torch->text;
  old_torch_ = torch && (torch->major < 1 || (torch->major == 1 && torch->minor < 13));
  if (inject) {
    job_.command.local_rank_position = job_.command.argv.size() - parsed_.words.size() + 1;
    job_.command.local_rank_flag = torch && torch->major < 2 ? "--local_rank" : "--local-rank";
  }
  return {};
}

// torchrun does not look after what its workers have started.
Result<void> Planner::plan_children() {
  job_.keep_children = !ours_ || parsed_.flag(Opt::kKeepChildren);
  if (!parsed_.flag(Opt::kKeepChildren) || !(parsed_.given(Opt::kContainer) || parsed_.given(Opt::kContainerName)))
    return {};
  return about(Opt::kKeepChildren, {ErrorKind::kUsage, "a container ends with its worker, and everything in it too",
                                    "leave it out, or run the workers without a container"});
}

Result<void> Planner::plan_failures() {
  MUSTER_TRY(int64_t restarts, integer(Opt::kMaxRestarts, 0, INT32_MAX));
  job_.max_restarts = static_cast<int>(restarts);
  constexpr int kCrashLoop = 3;
  job_.crash_loop = ours_ ? kCrashLoop : 0;
  if (parsed_.given(Opt::kCrashLoop)) {
    MUSTER_TRY(int64_t times, integer(Opt::kCrashLoop, 0, INT32_MAX));
    job_.crash_loop = static_cast<int>(times);
  }
  constexpr int64_t kMostSeconds = 100'000'000;
  int64_t seconds = 30;
  if (parsed_.has(Opt::kShutdownTimeout)) {
    MUSTER_TRY(seconds, integer(Opt::kShutdownTimeout, 0, kMostSeconds));
  } else if (auto variable = facts_.getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
    auto number = python_int(*variable);
    auto value = number ? parse_int(*number) : std::nullopt;
    if (!value || *value < 0 || *value > kMostSeconds)
      return Error{ErrorKind::kUsage,
                   fmt::format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT='{}' is not a number of seconds", *variable),
                   "set it to 0 or more, or unset it"};
    seconds = *value;
  }
  job_.shutdown_timeout = std::chrono::seconds(seconds);
  MUSTER_TRY_VOID(plan_children());
  job_.signals_text = text(Opt::kSignalsToHandle);
  SignalList signals = parse_signals(job_.signals_text);
  for (const std::string& name : signals.unknown) {
    if (ours_)
      return about(Opt::kSignalsToHandle, {ErrorKind::kUsage, fmt::format("'{}' is not a signal", name),
                                           "write names such as SIGTERM,SIGUSR1"});
    note(LogLevel::kWarning, fmt::format("Failed to register signal handler for {}", name));
  }
  for (int signal : signals.signals)
    if (ours_ && (signal == SIGKILL || signal == SIGSTOP))
      return about(
          Opt::kSignalsToHandle,
          {ErrorKind::kUsage, fmt::format("no process can handle {}", process::signal_name(signal)), "leave it out"});
  job_.signals_to_handle = signals.signals;
  if (!assignment_) job_.report_file = text(Opt::kReport);  // an agent's launcher writes it
  if (auto can = job_.report_file.empty() ? Result<void>() : facts_.can_create(job_.report_file); !can)
    return about(Opt::kReport, {ErrorKind::kUsage, can.error().message,
                                "name a new file, or an earlier report, in a directory you may write to"});
  return {};
}

void Planner::hide_other_gpus() {
  const process::GpuCount mine = gpus();
  if (mine.visible_variable.empty() || job_.workers > mine.count) return;  // more were asked for than its share has
  job_.environment.set(mine.visible_variable, join(mine.ids, ","));
}

// PBS sets OMP_NUM_THREADS for one process that has all CPUs of its chunk: that is nobody's wish for each of several.
std::optional<int> Planner::cpus_of_pbs() const {
  const std::string* threads = job_.environment.find("OMP_NUM_THREADS");
  const std::string* cpus = job_.environment.find("NCPUS");
  if (!ours_ || threads == nullptr || cpus == nullptr || *cpus != *threads) return {};
  if (!job_.environment.has("PBS_ENVIRONMENT")) return {};
  const auto number = parse_int(*threads);
  if (!number || *number < 1 || *number > INT32_MAX) return {};
  return static_cast<int>(*number);
}

void Planner::plan_environment() {
  plan_.given_environment = without_token(facts_.environment);
  job_.environment = without_token(environment_);
  // What --env or a prologue has just set is as it was wanted.
  auto untouched = [&](const std::string& name) {
    const std::string* before = facts_.environment.find(name);
    const std::string* now = environment_.find(name);
    return now == nullptr || (before != nullptr && *before == *now);
  };
  for (const auto& [name, value] : wishes_.environment)
    if (untouched(name)) job_.environment.set(name, value);
  if (assignment_ && nodes_here() > 1) hide_other_gpus();
  const std::optional<int> cpus = cpus_of_pbs();
  if (job_.environment.has("OMP_NUM_THREADS") && !cpus) return;
  // Each agent sets it for its own workers.
  const bool agents_do = fan_out() != nullptr;
  if (ours_ && !agents_do) {
    const int cores = std::min(facts_.usable_cores(), cpus.value_or(INT32_MAX));
    const int threads = process::threads_per_worker(cores, job_.workers * nodes_here());
    job_.environment.set("OMP_NUM_THREADS", std::to_string(threads));
  } else if (!ours_ && job_.workers > 1) {
    if (!agents_do) job_.environment.add("OMP_NUM_THREADS", "1");
    note(LogLevel::kWarning,
         "\n*****************************************\n"
         "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system "
         "being overloaded, please further tune the variable for optimal performance in your application as needed. \n"
         "*****************************************");
  }
}

// A worker costs its pidfd, two streams with their spools or log files, its pipes while it starts, and two
// connections to the store; a node three connections, and the process and pipes that lead to it.
Result<void> Planner::check_descriptors() {
  constexpr uint64_t kWorker = 10, kNode = 8, kOwn = 64, kStoreClients = 65536;
  std::string what = fmt::format("{} workers", job_.workers);
  uint64_t needed = kWorker * static_cast<uint64_t>(job_.workers) + kOwn;
  if (const launcher::FanOut* spec = fan_out()) {
    what = fmt::format("{} nodes", spec->hosts.size());
    needed = kNode * spec->hosts.size() + kOwn;
  }
  const uint64_t before = facts_.descriptor_limit();
  const uint64_t limit = facts_.raise_descriptor_limit(needed);
  // Whoever has rank 0 serves every worker of the job, of whose number nobody knows yet. Workers keep what they had.
  if (job_.membership && limit >= needed) facts_.raise_descriptor_limit(kStoreClients);
  job_.open_files = before;
  if (limit >= needed || parsed_.flag(Opt::kDryRun)) return {};
  return Error{
      ErrorKind::kUsage, fmt::format("{} need {} file descriptors and this process may open {}", what, needed, limit),
      fmt::format("raise the hard limit with 'ulimit -Hn {0}' as root (LimitNOFILE={0} in a systemd unit, nofile "
                  "in /etc/security/limits.conf), or start fewer",
                  needed)};
}

Result<JobPlan> plan_job(Verb verb, const Parsed& parsed, const Facts& facts, const Wishes& wishes) {
  return Planner(verb, parsed, facts, wishes).plan();
}

Result<JobPlan> plan_member(Verb verb, const Parsed& parsed, const Facts& facts, const Assignment& assignment,
                            const Wishes& wishes) {
  return Planner(verb, parsed, facts, wishes, &assignment).plan();
}

}  // namespace muster::cli
