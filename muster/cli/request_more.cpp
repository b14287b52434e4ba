#include "muster/base/strings.h"
#include "muster/cli/request_reader.h"
#include "muster/environment/assignments.h"

// Where nodes meet, what workers find, and where their output goes.
namespace muster::cli {
namespace {

using Conf = std::map<std::string, std::string>;

Result<std::optional<Duration>> conf_seconds(const RequestReader& in, const Conf& conf, const std::string& key) {
  auto found = conf.find(key);
  if (found == conf.end()) return std::optional<Duration>();
  constexpr int64_t kMost = 100'000'000;
  auto value = parse_int(found->second);
  if (!value || *value < 1 || *value > kMost)
    return in.about(Opt::kRdzvConf, {ErrorKind::kUsage, fmt::format("'{}' is not a value for {}", found->second, key),
                                     "write a whole number above 0"});
  return std::optional<Duration>(std::chrono::seconds(*value));
}

// torchrun does not look at what the chosen backend does not know.
Result<void> read_conf(const RequestReader& in, job::Request& request) {
  const std::string& backend = in.text(Opt::kRdzvBackend);
  request.conf.origin = in.source(Opt::kRdzvConf).origin;
  // Quotes that no shell has removed: a list of arguments in a program, a YAML file.
  auto conf = parse_rendezvous_conf(in.ours ? without_quotes(in.text(Opt::kRdzvConf)) : in.text(Opt::kRdzvConf));
  if (!conf) return request.conf.about(conf.error());
  const bool is_static = backend == "static" && !request.standalone;
  if (!in.ours && !is_static) conf->erase("timeout");
  if (in.ours || backend == "c10d")
    if (auto usable = check_rendezvous_conf(*conf); !usable) return request.conf.about(usable.error());
  job::RendezvousConf& all = request.conf.value;
  MUSTER_TRY(all.timeout, conf_seconds(in, *conf, "timeout"));
  if (!in.ours && is_static) return {};
  MUSTER_TRY(all.join_timeout, conf_seconds(in, *conf, "join_timeout"));
  MUSTER_TRY(all.last_call, conf_seconds(in, *conf, "last_call_timeout"));
  MUSTER_TRY(all.keep_alive_interval, conf_seconds(in, *conf, "keep_alive_interval"));
  MUSTER_TRY(std::optional<Duration> attempts, conf_seconds(in, *conf, "keep_alive_max_attempt"));
  if (attempts) all.keep_alive_attempts = static_cast<int>(*attempts / std::chrono::seconds(1));
  if (auto answer = conf->find("is_host"); answer != conf->end()) all.is_host = says_yes(answer->second);
  all.file_store = conf->contains("store_type") && conf->at("store_type") == "file";
  return {};
}

// A --stdin that is no rank whatever the job has.
Result<std::optional<job::StdinWish>> parse_stdin(const std::string& text) {
  using Kind = job::StdinWish::Kind;
  if (text.empty()) return std::optional<job::StdinWish>();
  if (text == "none" || text == "all")
    return std::optional(job::StdinWish{text == "all" ? Kind::kAll : Kind::kNone, 0});
  auto rank = parse_int(text);
  if (!rank || *rank < 0 || *rank > INT32_MAX)
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not a rank of this job", text),
                 "write none, all, or a rank from 0 on"};
  return std::optional(job::StdinWish{Kind::kRank, static_cast<int>(*rank)});
}

Result<void> read_streams(const RequestReader& in, job::Request& request) {
  const RankSyntax syntax = in.ours ? RankSyntax::kAny : RankSyntax::kTorchrun;
  const auto masks = [syntax](const std::string& text) { return parse_stream_masks(text, syntax); };
  MUSTER_TRY_VOID(in.take(request.redirects, Opt::kRedirects, masks));
  MUSTER_TRY_VOID(in.take(request.tee, Opt::kTee, masks));
  if (!in.text(Opt::kLocalRanksFilter).empty())
    MUSTER_TRY_VOID(in.take(request.console_ranks, Opt::kLocalRanksFilter,
                            [](const std::string& text) -> Result<std::optional<std::set<int>>> {
                              MUSTER_TRY(std::set<int> ranks, parse_ranks(text));
                              return std::optional(std::move(ranks));
                            }));
  request.stdout_filters = in.parsed.list(Opt::kDuplicateStdoutFilters);
  request.stderr_filters = in.parsed.list(Opt::kDuplicateStderrFilters);
  return {};
}

Result<void> read_labels(const RequestReader& in, job::Request& request) {
  request.prefix_template = in.text(Opt::kLogLinePrefixTemplate);
  if (request.prefix_template.empty())
    request.prefix_template = in.getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
  if (!in.ours) return {};
  if (auto ok = check_prefix_template(request.prefix_template); !ok)
    return in.about(Opt::kLogLinePrefixTemplate, ok.error());
  if (!in.parsed.has(Opt::kLabel)) return {};
  request.label = in.choice<job::LabelKind>(Opt::kLabel);
  // A label that was asked for beats a template from the environment.
  if (!in.parsed.given(Opt::kLogLinePrefixTemplate)) request.prefix_template.clear();
  return {};
}

}  // namespace

Result<void> read_rendezvous(const RequestReader& in, job::Request& request) {
  request.standalone = in.parsed.flag(Opt::kStandalone);
  const std::string& backend = in.text(Opt::kRdzvBackend);
  if (!request.standalone && backend != "static" && backend != "c10d")
    return in.about(Opt::kRdzvBackend, {ErrorKind::kUsage, fmt::format("'{}' is not supported", backend),
                                        "use c10d, which needs no server of its own"});
  request.backend.origin = in.source(Opt::kRdzvBackend).origin;
  request.backend.value = backend == "static" ? job::Backend::kStatic : job::Backend::kC10d;
  in.take(request.endpoint, Opt::kRdzvEndpoint);
  in.take(request.rdzv_id, Opt::kRdzvId);
  MUSTER_TRY_VOID(read_conf(in, request));
  MUSTER_TRY_VOID(in.take_integer(request.node_rank, Opt::kNodeRank, INT32_MIN, INT32_MAX));
  in.take(request.master_addr, Opt::kMasterAddr);
  in.take(request.local_addr, Opt::kLocalAddr);
  if (in.parsed.has(Opt::kMasterPort)) {
    request.master_port.origin = in.source(Opt::kMasterPort).origin;
    // torchrun does not look at it where it decides by itself where to meet.
    const bool counts = in.ours || (backend == "static" && !request.standalone);
    auto port = in.integer(Opt::kMasterPort, 0, UINT16_MAX);
    if (!port && counts) return port.error();
    if (port) request.master_port.value = *port;
  }
  if (in.parsed.has(Opt::kStore) || in.getenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1")
    request.store = in.text(Opt::kStore) == "agent" ? job::StoreHost::kAgent : job::StoreHost::kWorker;
  in.take(request.token_file, Opt::kTokenFile);
  request.insecure = in.parsed.flag(Opt::kInsecure);
  return {};
}

Result<void> read_environment(const RequestReader& in, job::Request& request) {
  for (const std::string& names : in.parsed.list(Opt::kModules)) {
    for (std::string_view name : split(names, ',')) {
      if (trim(name).empty())
        return in.about(Opt::kModules, {ErrorKind::kUsage, fmt::format("'{}' has an empty name", names), "write a,b"});
      request.modules.emplace_back(trim(name));
    }
  }
  for (auto [field, id] : {std::pair(&request.conda, Opt::kConda), std::pair(&request.venv, Opt::kVenv)}) {
    in.take(*field, id);
    if (field->given() && (*field)->empty()) return field->about({ErrorKind::kUsage, "it is empty", "leave it out"});
  }
  request.prologues = in.parsed.list(Opt::kPrologue);
  for (const std::string& prologue : request.prologues)
    if (trim(prologue).empty())
      return in.about(Opt::kPrologue, {ErrorKind::kUsage, "there is nothing in it", "leave it out"});
  request.env_files = in.parsed.list(Opt::kEnvFile);
  for (const std::string& word : in.parsed.list(Opt::kEnv)) {
    auto assignment = environment::parse_assignment(word);
    if (!assignment) return in.about(Opt::kEnv, assignment.error());
    request.env.push_back(*std::move(assignment));
  }
  in.take(request.record, Opt::kRecord);
  return {};
}

Result<void> read_container(const RequestReader& in, job::Request& request) {
  job::ContainerWish& wish = request.container;
  in.take(wish.image, Opt::kContainer);
  in.take(wish.name, Opt::kContainerName);
  if (!wish.given()) {
    for (Opt id : {Opt::kContainerRuntime, Opt::kContainerRoot, Opt::kContainerWritable, Opt::kMount,
                   Opt::kContainerWorkdir, Opt::kContainerOption})
      if (in.parsed.given(id))
        return Error{ErrorKind::kUsage, fmt::format("{} needs a container", dashed(option(id))),
                     "name its image with --container"};
    return {};
  }
  if (wish.image.given() && wish.image->empty())
    return wish.image.about({ErrorKind::kUsage, "it is empty", "name an image"});
  in.take(wish.runtime, Opt::kContainerRuntime);
  in.take(wish.directory, Opt::kContainerWorkdir);
  if (wish.directory.given() && !wish.directory->starts_with('/'))
    return wish.directory.about({ErrorKind::kUsage, fmt::format("'{}' is not a directory inside", *wish.directory),
                                 "write a path that begins with /"});
  wish.mounts.value = in.parsed.list(Opt::kMount);
  wish.options = in.parsed.list(Opt::kContainerOption);
  wish.root = in.parsed.flag(Opt::kContainerRoot);
  wish.writable = in.parsed.flag(Opt::kContainerWritable);
  return {};
}

Result<void> read_output(const RequestReader& in, job::Request& request) {
  const std::string& handler = in.text(Opt::kEventLogHandler);
  if (handler != "null" && handler != "console" && handler != "dynamic_rendezvous")
    return in.about(Opt::kEventLogHandler, {ErrorKind::kUsage, fmt::format("'{}' is not known", handler),
                                            in.ours ? "use null or console, or --events FILE" : "use null or console"});
  request.events_on_console = handler == "console";
  request.events_file = in.text(Opt::kEvents);
  request.log_dir = in.text(Opt::kLogDir);
  MUSTER_TRY_VOID(read_streams(in, request));
  MUSTER_TRY_VOID(read_labels(in, request));
  if (!in.ours) return {};
  MUSTER_TRY_VOID(in.take_integer(request.progress_rank, Opt::kProgressRank, INT32_MIN, INT32_MAX));
  MUSTER_TRY_VOID(in.take(request.stdin_wish, Opt::kStdin, parse_stdin));
  auto cap = parse_size(in.text(Opt::kOutputCap));
  if (!cap) return in.about(Opt::kOutputCap, cap.error());
  request.output_cap = *cap;
  return {};
}

}  // namespace muster::cli
