#include "muster/cli/request.h"

#include <csignal>

#include "muster/base/strings.h"
#include "muster/cli/request_reader.h"
#include "muster/cluster/hosts.h"
#include "muster/process/signals.h"

// What is run, on which nodes, and what happens when it fails; the rest is in request_more.cpp.
namespace muster::cli {

Error RequestReader::about(Opt id, const Error& error) const { return source(id).about(error); }

job::Source RequestReader::source(Opt id) const { return {option(id).name, parsed.setting(id).source}; }

Result<int> RequestReader::integer(Opt id, int64_t min, int64_t max) const {
  auto value = parse_int(text(id));
  if (!value || *value < min || *value > max) return about(id, job::out_of_range(text(id), min, max));
  return static_cast<int>(*value);
}

Result<Duration> RequestReader::seconds(Opt id, double min) const {
  constexpr double kMost = 1e8;
  const double value = python_float(text(id)).value_or(-1);
  if (!(value >= min && value <= kMost))
    return about(id, {ErrorKind::kUsage, fmt::format("{} is out of range", text(id)),
                      fmt::format("write {} or more seconds", min)});
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

namespace {

constexpr int64_t kMostSimulated = 4096;  // nodes on one machine

// What torchrun's LOGLEVEL asks for; WARNING where it asks for nothing known.
LogLevel torch_log_level(std::string_view name) {
  if (name == "DEBUG") return LogLevel::kDebug;
  if (name == "INFO") return LogLevel::kInfo;
  return name == "ERROR" || name == "CRITICAL" ? LogLevel::kError : LogLevel::kWarning;
}

LogLevel log_level(const RequestReader& in) {
  if (in.parsed.flag(Opt::kVerbose)) return LogLevel::kDebug;
  if (in.parsed.flag(Opt::kQuiet)) return LogLevel::kWarning;
  return in.ours ? LogLevel::kInfo : torch_log_level(in.getenv("LOGLEVEL").value_or(""));
}

// "train.py --nproc-per-node 2": the program gets it. A program that starts others may have such options of its own.
void note_options_behind(const RequestReader& in, std::vector<plan::Note>& notes) {
  const Parsed& parsed = in.parsed;
  if (!in.ours || parsed.words.empty() || !parsed.words[0].ends_with(".py")) return;
  for (Opt id : parsed.behind_program) {
    if (parsed.given(id)) continue;
    notes.push_back(
        {LogLevel::kWarning, fmt::format("{0} comes after {1}, so {1} gets it and muster does not; options of muster "
                                         "come before: muster run {0}{2} {1}",
                                         dashed(option(id)), parsed.words[0],
                                         option(id).takes_value() ? fmt::format(" {}", option(id).metavar) : "")});
  }
}

void note_words(const RequestReader& in, std::vector<plan::Note>& notes) {
  if (in.ours && in.parsed.given(Opt::kStartMethod))
    notes.push_back(
        {LogLevel::kInfo, "--start-method has no effect: every worker is a process of its own, started afresh"});
  note_options_behind(in, notes);
  for (Opt id : in.parsed.forgiven)
    notes.push_back({LogLevel::kWarning, fmt::format("{} is empty, and ignored: the allocation says which node this is",
                                                     dashed(option(id)))});
}

Result<void> read_program(const RequestReader& in, job::Request& request) {
  if (in.parsed.has(Opt::kLogsSpecs))
    return Error{ErrorKind::kUsage, "--logs-specs names a Python class inside torchrun, which muster does not load",
                 "use --log-dir, --redirects, --tee and --log-line-prefix-template"};
  request.dry_run = in.parsed.flag(Opt::kDryRun);
  request.env_diff = in.parsed.flag(Opt::kEnvDiff);
  request.log_threshold = log_level(in);
  request.words = in.parsed.words;
  request.module = in.parsed.flag(Opt::kModule);
  request.no_python = in.parsed.flag(Opt::kNoPython);
  request.run_path = in.parsed.flag(Opt::kRunPath);
  request.inject_local_rank = request.flavor == job::Flavor::kLaunch && !in.parsed.flag(Opt::kUseEnv);
  if (in.parsed.before_program == Opt::kHosts) request.hosts_before_program = in.text(Opt::kHosts);
  request.role = in.text(Opt::kRole);
  request.virtual_local_rank = in.parsed.flag(Opt::kVirtualLocalRank);
  if (in.parsed.has(Opt::kNumaBinding)) request.binding = process::parse_binding(in.text(Opt::kNumaBinding));
  return in.take(request.nproc, Opt::kNprocPerNode, parse_worker_count);
}

Result<void> read_nodes(const RequestReader& in, job::Request& request) {
  MUSTER_TRY_VOID(in.take(request.nnodes, Opt::kNnodes, parse_nodes));
  if (in.parsed.given(Opt::kHosts)) {
    request.hosts.origin = in.source(Opt::kHosts).origin;
    auto hosts = cluster::parse_hosts(in.text(Opt::kHosts));
    if (!hosts) return request.hosts.about(hosts.error());
    for (const cluster::Host& host : *hosts) request.hosts.value.push_back({host.name, host.workers});
  }
  in.take(request.hostfile, Opt::kHostfile);
  if (in.parsed.given(Opt::kLocalNodes))
    MUSTER_TRY_VOID(in.take_integer(request.local_nodes, Opt::kLocalNodes, 1, kMostSimulated));
  request.mode = in.choice<job::Mode>(Opt::kMode);
  in.take(request.ssh, Opt::kSsh);
  request.ssh_options = in.parsed.list(Opt::kSshOption);
  request.push = in.choice<job::PushBinary>(Opt::kPushBinary);
  request.grow = in.choice<job::Growth>(Opt::kGrow);
  MUSTER_TRY_VOID(in.take_seconds(request.join_timeout, Opt::kJoinTimeout, 1));
  MUSTER_TRY_VOID(in.take_seconds(request.lease, Opt::kLease, 2));
  if (in.parsed.given(Opt::kPortRange)) {
    auto ports = parse_port_range(in.text(Opt::kPortRange));
    if (!ports) return in.about(Opt::kPortRange, ports.error());
    request.ports = *ports;
  }
  in.take(request.interface, Opt::kInterface);
  return {};
}

Result<void> read_signals(const RequestReader& in, job::Request& request, std::vector<plan::Note>& notes) {
  request.signals_text = in.text(Opt::kSignalsToHandle);
  SignalList signals = parse_signals(request.signals_text);
  for (const std::string& name : signals.unknown) {
    if (in.ours)
      return in.about(Opt::kSignalsToHandle, {ErrorKind::kUsage, fmt::format("'{}' is not a signal", name),
                                              "write names such as SIGTERM,SIGUSR1"});
    notes.push_back({LogLevel::kWarning, fmt::format("Failed to register signal handler for {}", name)});
  }
  for (int signal : signals.signals)
    if (in.ours && (signal == SIGKILL || signal == SIGSTOP))
      return in.about(
          Opt::kSignalsToHandle,
          {ErrorKind::kUsage, fmt::format("no process can handle {}", process::signal_name(signal)), "leave it out"});
  request.signals = std::move(signals.signals);
  return {};
}

Result<Duration> shutdown_timeout(const RequestReader& in) {
  constexpr int64_t kMostSeconds = 100'000'000;
  if (in.parsed.has(Opt::kShutdownTimeout)) {
    MUSTER_TRY(const int given, in.integer(Opt::kShutdownTimeout, 0, kMostSeconds));
    return Duration(std::chrono::seconds(given));
  }
  const auto variable = in.getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  if (!variable) return Duration(std::chrono::seconds(30));
  auto number = python_int(*variable);
  auto value = number ? parse_int(*number) : std::nullopt;
  if (!value || *value < 0 || *value > kMostSeconds)
    return Error{ErrorKind::kUsage,
                 fmt::format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT='{}' is not a number of seconds", *variable),
                 "set it to 0 or more, or unset it"};
  return Duration(std::chrono::seconds(*value));
}

// torchrun does not look after what its workers have started.
Result<void> read_failures(const RequestReader& in, job::Request& request, std::vector<plan::Note>& notes) {
  MUSTER_TRY(request.max_restarts, in.integer(Opt::kMaxRestarts, 0, INT32_MAX));
  constexpr int kCrashLoop = 3;
  MUSTER_TRY(request.crash_loop, in.integer(Opt::kCrashLoop, 0, INT32_MAX));
  if (in.ours && !in.parsed.given(Opt::kCrashLoop)) request.crash_loop = kCrashLoop;
  MUSTER_TRY(request.shutdown_timeout, shutdown_timeout(in));
  const bool keep = in.parsed.flag(Opt::kKeepChildren);
  request.keep_children = !in.ours || keep;
  if (keep && request.container.given())
    return in.about(Opt::kKeepChildren,
                    {ErrorKind::kUsage, "a container ends with its worker, and everything in it too",
                     "leave it out, or run the workers without a container"});
  MUSTER_TRY_VOID(read_signals(in, request, notes));
  in.take(request.report, Opt::kReport);
  return {};
}

}  // namespace

Result<Asking> make_request(Verb verb, const Parsed& parsed, const GetEnv& getenv) {
  const RequestReader in{verb == Verb::kRun, parsed, getenv};
  Asking asking;
  job::Request& request = asking.request;
  request.flavor = verb == Verb::kRun      ? job::Flavor::kMuster
                   : verb == Verb::kLaunch ? job::Flavor::kLaunch
                                           : job::Flavor::kTorchrun;
  MUSTER_TRY_VOID(read_program(in, request));
  MUSTER_TRY_VOID(read_rendezvous(in, request));
  MUSTER_TRY_VOID(read_nodes(in, request));
  MUSTER_TRY_VOID(read_environment(in, request));
  MUSTER_TRY_VOID(read_container(in, request));
  note_words(in, asking.notes);
  MUSTER_TRY_VOID(read_failures(in, request, asking.notes));
  MUSTER_TRY_VOID(read_output(in, request));
  return asking;
}

}  // namespace muster::cli
