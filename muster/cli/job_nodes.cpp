#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"

namespace muster::cli {
namespace {

using launcher::FanOut;
using launcher::Symmetric;

constexpr Duration kStaticTimeout = std::chrono::seconds(900);  // torchrun's
constexpr Duration kTorchrunLastCall = std::chrono::seconds(30);
constexpr double kLeastJoinTimeout = 1, kLeastLease = 2;  // seconds

}  // namespace

Result<void> Planner::plan_nodes() {
  MUSTER_TRY_VOID(read_conf());
  MUSTER_TRY_VOID(plan_ports());
  if (assignment_) return plan_member();
  MUSTER_TRY_VOID(check_node_options());
  for (Opt id : parsed_.forgiven)
    note(LogLevel::kWarning,
         fmt::format("{} is empty, and ignored: the allocation says which node this is", dashed(option(id))));
  const Opt ways[] = {Opt::kHosts, Opt::kHostfile, Opt::kLocalNodes};
  std::vector<std::string> given;
  for (Opt way : ways)
    if (parsed_.given(way)) given.push_back(dashed(option(way)));
  if (given.size() > 1)
    return Error{ErrorKind::kUsage, fmt::format("{} both say which nodes there are", join(given, " and ")),
                 "leave one of them out"};
  if (given.empty()) return plan_here();
  if (text(Opt::kMode) == "symmetric" || text(Opt::kMode) == "local")
    return about(Opt::kMode, {ErrorKind::kUsage, fmt::format("{} names nodes to start from here", given[0]),
                              "leave one of them out"});
  return plan_named_hosts();
}

// As many as were asked for over all nodes; a spare is ready for the share of any.
Result<void> Planner::share_out_processes() {
  FanOut* spec = fan_out();
  if (spec == nullptr || !wishes_.processes) return {};
  const int nodes = spec->membership.max_nodes;
  const int processes = *wishes_.processes;
  if (processes < nodes)
    return about(Opt::kNprocPerNode, {ErrorKind::kUsage, fmt::format("{} for {} nodes", processes, nodes),
                                      fmt::format("ask for {} or more, or for fewer nodes with --nnodes", nodes)});
  for (int i = 0; i < static_cast<int>(spec->hosts.size()); ++i)
    spec->hosts[static_cast<size_t>(i)].workers = processes / nodes + (i < processes % nodes ? 1 : 0);
  return {};
}

Result<void> Planner::read_conf() {
  // Quotes that no shell has removed: a list of arguments in a program, a YAML file.
  auto conf = parse_rendezvous_conf(ours_ ? without_quotes(text(Opt::kRdzvConf)) : text(Opt::kRdzvConf));
  if (!conf) return about(Opt::kRdzvConf, conf.error());
  // The static backend's. torchrun does not look at what the chosen backend does not know.
  if (!ours_ && (standalone() || text(Opt::kRdzvBackend) != "static")) conf->erase("timeout");
  if (auto usable = check_rendezvous_conf(*conf); !usable && (ours_ || text(Opt::kRdzvBackend) == "c10d"))
    return about(Opt::kRdzvConf, usable.error());
  conf_ = *std::move(conf);
  return {};
}

Result<void> Planner::plan_ports() {
  if (parsed_.given(Opt::kPortRange)) {
    auto ports = parse_port_range(text(Opt::kPortRange));
    if (!ports) return about(Opt::kPortRange, ports.error());
    ports_ = *ports;
  }
  if (!parsed_.given(Opt::kInterface)) return {};
  auto loopback = facts_.is_loopback(text(Opt::kInterface));
  if (!loopback) return about(Opt::kInterface, loopback.error());
  loopback_ = *loopback;
  return {};
}

// A job of one node needs none of them. What is wrong is wrong there too, and not only when the job grows.
Result<void> Planner::check_node_options() const {
  MUSTER_TRY_VOID(seconds(Opt::kJoinTimeout, kLeastJoinTimeout));
  MUSTER_TRY_VOID(seconds(Opt::kLease, kLeastLease));
  if (parsed_.given(Opt::kTokenFile) && !parsed_.flag(Opt::kInsecure)) MUSTER_TRY_VOID(token_file());
  return {};
}

// An agent: the launcher has decided all but what this machine has.
Result<void> Planner::plan_member() {
  job::Membership& membership = job_.membership.emplace();
  membership.token = assignment_->token;
  membership.coordinators = assignment_->endpoints;
  membership.position = assignment_->position;
  membership.output_to_launcher = true;
  membership.ports = ports_;
  membership.interface = text(Opt::kInterface);
  rendezvous::MembershipOptions options;  // the coordinator has them; the time is for both
  MUSTER_TRY_VOID(plan_membership(options, false));
  membership.join_timeout = options.join_timeout;
  MUSTER_TRY(job_.run_id, common_id());
  if (parsed_.has(Opt::kMasterPort)) {
    MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 0, UINT16_MAX));
    job_.master_port = static_cast<uint16_t>(port);
  }
  return {};
}

// How many nodes share this machine's cores and GPUs: simulated ones do; spares among them have no workers.
int Planner::nodes_here() const { return assignment_ ? simulated_nodes() : 1; }

int Planner::simulated_nodes() const {
  if (!parsed_.given(Opt::kLocalNodes)) return 1;
  const auto simulated = parse_int(text(Opt::kLocalNodes)).value_or(1);
  auto wanted = parse_nodes(text(Opt::kNnodes));
  const bool fewer = parsed_.given(Opt::kNnodes) && wanted && wanted->max < simulated;
  return fewer ? wanted->max : static_cast<int>(simulated);
}

Result<std::optional<Duration>> Planner::conf_seconds(const std::string& key) const {
  auto found = conf_.find(key);
  if (found == conf_.end()) return std::optional<Duration>();
  constexpr int64_t kMost = 100'000'000;
  auto value = parse_int(found->second);
  if (!value || *value < 1 || *value > kMost)
    return about(Opt::kRdzvConf, {ErrorKind::kUsage, fmt::format("'{}' is not a value for {}", found->second, key),
                                  "write a whole number above 0"});
  return std::optional<Duration>(std::chrono::seconds(*value));
}

Result<void> Planner::plan_membership(rendezvous::MembershipOptions& options, bool is_static) {
  MUSTER_TRY(options.join_timeout, seconds(Opt::kJoinTimeout, kLeastJoinTimeout));
  if (!parsed_.given(Opt::kJoinTimeout)) {
    MUSTER_TRY(std::optional<Duration> conf, conf_seconds(is_static ? "timeout" : "join_timeout"));
    if (conf || (is_static && !ours_)) options.join_timeout = conf.value_or(kStaticTimeout);
  }
  if (!ours_) options.last_call = kTorchrunLastCall;
  if (!is_static) {
    MUSTER_TRY(std::optional<Duration> conf, conf_seconds("last_call_timeout"));
    if (conf) options.last_call = *conf;
  }
  MUSTER_TRY(options.lease, seconds(Opt::kLease, kLeastLease));
  if (!is_static && !parsed_.given(Opt::kLease)) {
    MUSTER_TRY(std::optional<Duration> interval, conf_seconds("keep_alive_interval"));
    MUSTER_TRY(std::optional<Duration> attempts, conf_seconds("keep_alive_max_attempt"));
    constexpr int kAttempts = 3;
    constexpr Duration kInterval = std::chrono::seconds(5);  // torchrun's, both
    if (interval || attempts)
      options.lease =
          std::max(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(kLeastLease)),
                   interval.value_or(kInterval) * (attempts ? *attempts / std::chrono::seconds(1) : kAttempts));
  }
  const std::string& grow = text(Opt::kGrow);
  using rendezvous::Grow;
  options.grow = grow == "never" ? Grow::kNever : grow == "restart" ? Grow::kRestart : Grow::kNow;
  return {};
}

// The id that all nodes have. One that is started from here has a fresh one; else nobody could make one that the others
// know.
Result<std::string> Planner::common_id() {
  if (!job_.membership || assignment_) {
    if (!parsed_.given(Opt::kRdzvId)) return facts_.uuid();
  } else if (derived_ && !parsed_.given(Opt::kRdzvId)) {
    return derived_name();
  }
  if (text(Opt::kRdzvId).empty())
    return about(Opt::kRdzvId, {ErrorKind::kUsage, "it is empty", "give all nodes the same name, or leave it out"});
  return text(Opt::kRdzvId);
}

void Planner::note_ignored(std::initializer_list<Opt> ids, std::string_view why, std::string_view what) {
  std::vector<std::string> names;
  for (Opt id : ids)
    if (parsed_.given(id)) names.push_back(dashed(option(id)));
  if (names.empty()) return;
  note(LogLevel::kWarning, fmt::format("{} {} {}: {}", join(names, ", "), names.size() == 1 ? "is" : "are", what, why));
}

// What the other steps have found out in the meantime.
void Planner::finish_nodes() {
  // Workers that host the store themselves cannot have the port at which the nodes meet.
  if (job_.membership && job_.rdzv_backend == "static" && !assignment_)
    job_.membership->store_on_coordinator_port = job_.store_host == job::StoreHost::kAgent;
  if (FanOut* spec = fan_out()) {
    spec->membership.max_restarts = job_.max_restarts;
    spec->membership.crash_loop = job_.crash_loop;
    spec->job = job_;
  } else if (auto* symmetric = std::get_if<Symmetric>(&plan_.nodes)) {
    symmetric->membership.max_restarts = job_.max_restarts;
    symmetric->membership.crash_loop = job_.crash_loop;
    symmetric->job = job_;
  }
}

}  // namespace muster::cli
