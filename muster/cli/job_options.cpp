#include "muster/cli/job_options.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/command.h"
#include "muster/cli/values.h"
#include "muster/process/cpus.h"
#include "muster/process/signals.h"

namespace muster::cli {
namespace {

constexpr std::string_view kTorchrunPrefix = "[${role_name}${local_rank}]:";
constexpr int kDefaultStaticPort = 29500;

// "--option: what is wrong; what to do", or the variable that the value came from.
Error about(const Parsed& parsed, Opt id, Error error) {
  const Option& o = option(id);
  const bool from_variable = parsed.setting(id).source == Source::kEnvironment;
  error.message = fmt::format("{}: {}", from_variable ? pet_variable(o) : dashed(o), error.message);
  return error;
}

// What torchrun's LOGLEVEL asks for; WARNING where it asks for nothing known.
LogLevel torch_log_level(std::string_view name) {
  if (name == "DEBUG") return LogLevel::kDebug;
  if (name == "INFO") return LogLevel::kInfo;
  return name == "ERROR" || name == "CRITICAL" ? LogLevel::kError : LogLevel::kWarning;
}

class Planner {
 public:
  Planner(Verb verb, const Parsed& parsed, const Facts& facts)
      : verb_(verb), ours_(verb == Verb::kRun), parsed_(parsed), facts_(facts) {}

  Result<JobPlan> plan() {
    job_.flavor = verb_ == Verb::kRun      ? agent::Flavor::kMuster
                  : verb_ == Verb::kLaunch ? agent::Flavor::kLaunch
                                           : agent::Flavor::kTorchrun;
    MUSTER_TRY_VOID(refuse_unsupported());
    MUSTER_TRY_VOID(plan_nodes());
    MUSTER_TRY_VOID(plan_workers());
    MUSTER_TRY_VOID(plan_command());
    MUSTER_TRY_VOID(plan_rendezvous());
    MUSTER_TRY_VOID(plan_store());
    MUSTER_TRY_VOID(plan_failures());
    MUSTER_TRY_VOID(plan_output());
    MUSTER_TRY_VOID(plan_stdin());
    plan_environment();
    MUSTER_TRY_VOID(check_descriptors());
    return std::move(plan_);
  }

 private:
  const std::string& text(Opt id) const { return parsed_.text(id); }

  void note(LogLevel level, std::string text) { plan_.notes.push_back({level, std::move(text)}); }

  Result<int64_t> integer(Opt id, int64_t min, int64_t max) const {
    auto value = parse_int(text(id));
    if (!value || *value < min || *value > max)
      return about(parsed_, id,
                   {ErrorKind::kUsage, fmt::format("{} is out of range", text(id)),
                    max < INT32_MAX ? fmt::format("write {} to {}", min, max) : fmt::format("write {} or more", min)});
    return *value;
  }

  Result<void> refuse_unsupported() {
    if (!ours_) job_.log_threshold = torch_log_level(facts_.getenv("LOGLEVEL").value_or(""));
    if (parsed_.flag(Opt::kQuiet)) job_.log_threshold = LogLevel::kWarning;
    if (parsed_.flag(Opt::kVerbose)) job_.log_threshold = LogLevel::kDebug;
    if (parsed_.has(Opt::kLogsSpecs))
      return Error{ErrorKind::kUsage, "--logs-specs names a Python class inside torchrun, which muster does not load",
                   "use --log-dir, --redirects, --tee and --log-line-prefix-template"};
    const std::string& backend = text(Opt::kRdzvBackend);
    if (!standalone() && backend != "static" && backend != "c10d")
      return about(parsed_, Opt::kRdzvBackend,
                   {ErrorKind::kUsage, fmt::format("'{}' is not supported", backend),
                    "use c10d, which needs no server of its own"});
    const std::string& handler = text(Opt::kEventLogHandler);
    if (handler != "null" && handler != "console" && handler != "dynamic_rendezvous")
      return about(parsed_, Opt::kEventLogHandler,
                   {ErrorKind::kUsage, fmt::format("'{}' is not known", handler),
                    ours_ ? "use null or console, or --events FILE" : "use null or console"});
    job_.events_on_console = handler == "console";
    job_.events_file = text(Opt::kEvents);
    if (ours_ && parsed_.given(Opt::kStartMethod))
      note(LogLevel::kInfo, "--start-method has no effect: every worker is a process of its own, started afresh");
    return {};
  }

  bool standalone() const { return parsed_.flag(Opt::kStandalone); }

  Result<void> plan_nodes() {
    auto nodes = parse_nodes(text(Opt::kNnodes));
    if (!nodes) return about(parsed_, Opt::kNnodes, nodes.error());
    const bool elastic = standalone() || text(Opt::kRdzvBackend) == "c10d" || (ours_ && nodes->min < nodes->max);
    const int wanted = elastic ? nodes->min : nodes->max;
    if (wanted > 1)
      return about(
          parsed_, Opt::kNnodes,
          {ErrorKind::kUsage, fmt::format("{} nodes were asked for, and several nodes are not supported yet", wanted),
           "start it on one node with --nnodes 1"});
    if (nodes->max > 1)
      note(LogLevel::kWarning,
           fmt::format("--nnodes {}: starting on this node alone, several nodes are not supported yet",
                       text(Opt::kNnodes)));
    MUSTER_TRY(int64_t node_rank, integer(Opt::kNodeRank, INT32_MIN, INT32_MAX));
    if (node_rank != 0 && text(Opt::kRdzvBackend) == "static" && !standalone())
      return about(
          parsed_, Opt::kNodeRank,
          {ErrorKind::kUsage, fmt::format("there is no node {} in a job of one node", node_rank), "leave it out"});
    return {};
  }

  Result<int> count(Countable what) {
    if (what == Countable::kCpu) return facts_.affinity_cpus();
    const process::GpuCount gpus = facts_.gpus();
    if (gpus.count > 0) return gpus.count;
    if (what == Countable::kAuto) return facts_.affinity_cpus();
    std::string seen = gpus.source.empty() ? "this machine shows none" : gpus.source + " says so";
    return about(parsed_, Opt::kNprocPerNode,
                 {ErrorKind::kUsage, fmt::format("there is no GPU ({})", seen), "give a number, or auto"});
  }

  Result<void> plan_workers() {
    if (ours_ && !parsed_.given(Opt::kNprocPerNode)) {
      job_.workers = std::max(facts_.gpus().count, 1);
    } else {
      auto wanted = parse_worker_count(text(Opt::kNprocPerNode));
      if (!wanted) return about(parsed_, Opt::kNprocPerNode, wanted.error());
      if (const int* number = std::get_if<int>(&*wanted)) {
        job_.workers = *number;
      } else {
        MUSTER_TRY(job_.workers, count(std::get<Countable>(*wanted)));
      }
    }
    job_.role = text(Opt::kRole);
    job_.virtual_local_rank = parsed_.flag(Opt::kVirtualLocalRank);
    if (parsed_.has(Opt::kNumaBinding)) job_.binding = process::parse_binding(text(Opt::kNumaBinding));
    return {};
  }

  Result<void> plan_command() {
    const bool inject = verb_ == Verb::kLaunch && !parsed_.flag(Opt::kUseEnv);
    if (inject && parsed_.flag(Opt::kNoPython))
      return usage_error("When using the '--no-python' flag, you must also set the '--use-env' flag.");
    MUSTER_TRY(WorkerCommand worker, worker_command(verb_, parsed_, facts_));
    job_.command = std::move(worker.command);
    std::optional<process::TorchVersion> torch;
    if (!worker.python.empty()) torch = facts_.find_torch(worker.python);
    if (torch) job_.torch_version = torch->text;
    old_torch_ = torch && (torch->major < 1 || (torch->major == 1 && torch->minor < 13));
    if (inject) {
      job_.command.local_rank_position = job_.command.argv.size() - parsed_.words.size() + 1;
      job_.command.local_rank_flag = torch && torch->major < 2 ? "--local_rank" : "--local-rank";
    }
    return {};
  }

  // One node: who is MASTER_ADDR, on which port, and what the job is called.
  Result<void> plan_rendezvous() {
    auto conf = parse_rendezvous_conf(text(Opt::kRdzvConf));
    if (!conf) return about(parsed_, Opt::kRdzvConf, conf.error());
    const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty() && !standalone();
    const bool has_port = parsed_.has(Opt::kMasterPort);
    const bool is_static = !standalone() && text(Opt::kRdzvBackend) == "static" && (has_endpoint || has_port);

    job_.rdzv_backend = is_static ? "static" : "c10d";
    job_.run_id = text(Opt::kRdzvId);
    const bool named = parsed_.given(Opt::kRdzvId) && !(ours_ && job_.run_id.empty());
    // torchrun overwrites even a given id when it decides by itself where to meet.
    if (standalone() || (ours_ ? !named : !is_static && text(Opt::kRdzvBackend) == "static"))
      job_.run_id = facts_.uuid();
    if (job_.run_id.empty()) job_.run_id = decimal_id();

    Endpoint endpoint;
    if (has_endpoint) {
      auto given = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
      if (!given) return about(parsed_, Opt::kRdzvEndpoint, given.error());
      endpoint = *given;
    }
    if (is_static) return plan_static(has_endpoint, endpoint);
    job_.master_addr = parsed_.has(Opt::kLocalAddr) ? text(Opt::kLocalAddr)
                       : ours_                      ? text(Opt::kMasterAddr)
                                                    : facts_.fully_qualified_hostname();
    // c10d's endpoint is where agents meet; with one node there is nobody to meet, and the store takes its port.
    if (ours_ && endpoint.port > 0) return fix_port(endpoint.port);
    return {};
  }

  Result<void> plan_static(bool has_endpoint, const Endpoint& endpoint) {
    if (!has_endpoint) {
      MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 0, 65535));
      auto address = parse_endpoint(text(Opt::kMasterAddr) + ":0", 0);
      if (!address) return about(parsed_, Opt::kMasterAddr, address.error());
      job_.master_addr = address->host;
      return fix_port(static_cast<int>(port));
    }
    if (endpoint.port < 0)
      return about(
          parsed_, Opt::kRdzvEndpoint,
          {ErrorKind::kUsage, fmt::format("'{}' has no port", text(Opt::kRdzvEndpoint)),
           fmt::format("write {}:{}, or use --rdzv-backend c10d", text(Opt::kRdzvEndpoint), kDefaultStaticPort)});
    job_.master_addr = endpoint.host;
    return fix_port(endpoint.port);
  }

  Result<void> fix_port(int port) {
    job_.master_port = static_cast<uint16_t>(port);
    return port == 0 ? Result<void>() : facts_.check_port(job_.master_port);
  }

  // 38 digits at most, as Python's uuid4().int has.
  std::string decimal_id() const {
    unsigned __int128 number = 0;
    for (char c : facts_.uuid()) {
      if (c == '-') continue;
      number = number * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    std::string digits;
    for (; number != 0; number /= 10)
      digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(number % 10)));
    return digits;
  }

  Result<void> plan_store() {
    const bool unshared = facts_.getenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1";
    const bool by_worker = text(Opt::kStore) == "worker" || (text(Opt::kStore).empty() && (old_torch_ || unshared));
    job_.store_host = by_worker ? agent::StoreHost::kWorker : agent::StoreHost::kAgent;
    return {};
  }

  Result<void> plan_failures() {
    MUSTER_TRY(int64_t restarts, integer(Opt::kMaxRestarts, 0, INT32_MAX));
    job_.max_restarts = static_cast<int>(restarts);
    constexpr int64_t kMostSeconds = 100'000'000;
    int64_t seconds = 30;
    if (parsed_.has(Opt::kShutdownTimeout)) {
      MUSTER_TRY(seconds, integer(Opt::kShutdownTimeout, 0, kMostSeconds));
    } else if (auto variable = facts_.getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
      auto number = python_int(*variable);
      auto value = number ? parse_int(*number) : std::nullopt;
      if (!value || *value < 0 || *value > kMostSeconds)
        return Error{ErrorKind::kUsage,
                     fmt::format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT='{}' is no number of seconds", *variable),
                     "set it to 0 or more, or unset it"};
      seconds = *value;
    }
    job_.shutdown_timeout = std::chrono::seconds(seconds);
    job_.signals_text = text(Opt::kSignalsToHandle);
    SignalList signals = parse_signals(job_.signals_text);
    for (const std::string& name : signals.unknown) {
      if (ours_)
        return about(
            parsed_, Opt::kSignalsToHandle,
            {ErrorKind::kUsage, fmt::format("'{}' is no signal", name), "write names such as SIGTERM,SIGUSR1"});
      note(LogLevel::kWarning, fmt::format("Failed to register signal handler for {}", name));
    }
    job_.signals_to_handle = signals.signals;
    job_.report_file = text(Opt::kReport);
    if (!job_.report_file.empty() && !facts_.can_create(job_.report_file))
      return about(parsed_, Opt::kReport,
                   {ErrorKind::kUsage, fmt::format("'{}' cannot be written", job_.report_file),
                    "give a file in a directory you may write to"});
    return {};
  }

  Result<void> plan_output() {
    agent::OutputSpec& output = job_.output;
    output.log_dir = text(Opt::kLogDir);
    const RankSyntax syntax = ours_ ? RankSyntax::kAny : RankSyntax::kTorchrun;
    for (auto [id, masks] : {std::pair(Opt::kRedirects, &output.redirects), std::pair(Opt::kTee, &output.tee)}) {
      auto parsed = parse_stream_masks(text(id), job_.workers, syntax);
      if (!parsed) return about(parsed_, id, parsed.error());
      *masks = *std::move(parsed);
    }
    if (ours_ && !output.log_dir.empty() && output.log_dir != "/dev/null" && !parsed_.given(Opt::kRedirects) &&
        !parsed_.given(Opt::kTee))
      output.tee = *parse_stream_masks("3", job_.workers, syntax);
    if (!text(Opt::kLocalRanksFilter).empty()) {
      auto ranks = parse_ranks(text(Opt::kLocalRanksFilter));
      if (!ranks) return about(parsed_, Opt::kLocalRanksFilter, ranks.error());
      output.console_ranks = *std::move(ranks);
    }
    output.stdout_filters = parsed_.list(Opt::kDuplicateStdoutFilters);
    output.stderr_filters = parsed_.list(Opt::kDuplicateStderrFilters);
    if (output.log_dir == "/dev/null" && !(output.stdout_filters.empty() && output.stderr_filters.empty()))
      return Error{ErrorKind::kUsage, "--duplicate-*-filters write files, and --log-dir /dev/null forbids them",
                   "name a directory"};
    MUSTER_TRY_VOID(plan_labels());
    if (!ours_) {
      output.inherit_plain_streams = true;
      return {};
    }
    MUSTER_TRY(int64_t rank, integer(Opt::kProgressRank, 0, job_.workers - 1));
    output.progress_rank = static_cast<int>(rank);
    auto cap = parse_size(text(Opt::kOutputCap));
    if (!cap) return about(parsed_, Opt::kOutputCap, cap.error());
    output.cap = *cap;
    return {};
  }

  Result<void> plan_labels() {
    agent::OutputSpec& output = job_.output;
    output.prefix_template = text(Opt::kLogLinePrefixTemplate);
    if (output.prefix_template.empty())
      output.prefix_template = facts_.getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
    if (!ours_) {
      if (output.prefix_template.empty()) output.prefix_template = kTorchrunPrefix;
      return {};
    }
    if (auto ok = check_prefix_template(output.prefix_template); !ok)
      return about(parsed_, Opt::kLogLinePrefixTemplate, ok.error());
    const std::string& label = text(Opt::kLabel);
    output.label = label == "host:rank"                                     ? agent::LabelKind::kHostRank
                   : label == "rank" || (label.empty() && job_.workers > 1) ? agent::LabelKind::kRank
                                                                            : agent::LabelKind::kNone;
    // A label that was asked for beats a template from the environment.
    if (parsed_.has(Opt::kLabel) && !parsed_.given(Opt::kLogLinePrefixTemplate)) output.prefix_template.clear();
    return {};
  }

  Result<void> plan_stdin() {
    using Kind = agent::StdinSpec::Kind;
    const std::string& who = text(Opt::kStdin);
    if (!ours_) {
      job_.stdin_spec = {Kind::kInherit, 0};
    } else if (who == "all") {
      job_.stdin_spec = {Kind::kAll, 0};
    } else if (who == "none" || (who.empty() && job_.workers > 1)) {
      job_.stdin_spec = {Kind::kNone, 0};
    } else {
      auto rank = who.empty() ? std::optional<int64_t>(0) : parse_int(who);
      if (!rank || *rank < 0 || *rank >= job_.workers)
        return about(parsed_, Opt::kStdin,
                     {ErrorKind::kUsage, fmt::format("'{}' is no rank of this job", who),
                      fmt::format("write none, all, or a rank from 0 to {}", job_.workers - 1)});
      job_.stdin_spec = {Kind::kRank, static_cast<int>(*rank)};
    }
    return {};
  }

  void plan_environment() {
    plan_.given_environment = job_.environment = facts_.environment;
    if (facts_.getenv("OMP_NUM_THREADS")) return;
    if (ours_) {
      const int threads = process::threads_per_worker(facts_.usable_cores(), job_.workers);
      job_.environment.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
    } else if (job_.workers > 1) {
      job_.environment.emplace_back("OMP_NUM_THREADS", "1");
      note(
          LogLevel::kWarning,
          "\n*****************************************\n"
          "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system "
          "being overloaded, please further tune the variable for optimal performance in your application as needed. \n"
          "*****************************************");
    }
  }

  // A worker costs its pidfd, two streams with their spools or log files, its pipes while it starts, and two
  // connections to the store.
  Result<void> check_descriptors() {
    constexpr uint64_t kEach = 10, kOwn = 64;
    const uint64_t needed = kEach * static_cast<uint64_t>(job_.workers) + kOwn;
    const uint64_t limit = facts_.raise_descriptor_limit(needed);
    if (limit >= needed) return {};
    return Error{
        ErrorKind::kUsage,
        fmt::format("{} workers need {} file descriptors and this process may open {}", job_.workers, needed, limit),
        fmt::format("raise the hard limit with 'ulimit -Hn {0}' as root (LimitNOFILE={0} in a systemd unit, nofile "
                    "in /etc/security/limits.conf), or start fewer workers",
                    needed)};
  }

  const Verb verb_;
  const bool ours_;
  const Parsed& parsed_;
  const Facts& facts_;
  JobPlan plan_;
  agent::JobSpec& job_ = plan_.job;
  bool old_torch_ = false;
};

}  // namespace

Result<JobPlan> plan_job(Verb verb, const Parsed& parsed, const Facts& facts) {
  return Planner(verb, parsed, facts).plan();
}

}  // namespace muster::cli
