#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/node_environment.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

using launcher::FanOut;
using launcher::Symmetric;

constexpr int kStaticPort = 29500;
constexpr int kC10dPort = 29400;
constexpr Duration kStaticTimeout = std::chrono::seconds(900);  // torchrun's
constexpr Duration kTorchrunLastCall = std::chrono::seconds(30);
constexpr int kCrashLoop = 3;
constexpr int64_t kMostSimulated = 4096;  // nodes on one machine
constexpr Duration kLeastLease = std::chrono::seconds(2);

std::string endpoint_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port) : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

}  // namespace

Result<void> Planner::plan_nodes() {
  MUSTER_TRY_VOID(read_conf());
  MUSTER_TRY_VOID(plan_ports());
  if (assignment_) return plan_member();
  const Opt ways[] = {Opt::kHosts, Opt::kHostfile, Opt::kLocalNodes};
  std::vector<std::string> given;
  for (Opt way : ways)
    if (parsed_.given(way)) given.push_back(dashed(option(way)));
  if (given.size() > 1)
    return Error{ErrorKind::kUsage, fmt::format("{} both say which nodes there are", join(given, " and ")),
                 "leave one of them out"};
  return given.empty() ? plan_own_node() : plan_fan_out();
}

Result<void> Planner::read_conf() {
  auto conf = parse_rendezvous_conf(text(Opt::kRdzvConf));
  if (!conf) return about(Opt::kRdzvConf, conf.error());
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
  if (auto there = facts_.check_interface(text(Opt::kInterface)); !there) return about(Opt::kInterface, there.error());
  return {};
}

// An agent: the launcher has decided all but what this machine has.
Result<void> Planner::plan_member() {
  agent::Membership& membership = job_.membership.emplace();
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

// --- Nodes that are started from here -------------------------------------------------------------------------------

Result<std::vector<cluster::Host>> Planner::named_hosts() {
  if (parsed_.given(Opt::kHosts)) {
    auto hosts = cluster::parse_hosts(text(Opt::kHosts));
    if (!hosts) return about(Opt::kHosts, hosts.error());
    return hosts;
  }
  if (parsed_.given(Opt::kHostfile)) {
    const std::string& file = text(Opt::kHostfile);
    auto content = facts_.read_file(file);
    if (!content) return about(Opt::kHostfile, {ErrorKind::kUsage, content.error().message, "give a file that exists"});
    auto hosts = cluster::parse_hostfile(*content);
    if (!hosts) return about(Opt::kHostfile, hosts.error());
    if (hosts->empty())
      return about(Opt::kHostfile, {ErrorKind::kUsage, fmt::format("'{}' names no host", file), "write one a line"});
    return hosts;
  }
  MUSTER_TRY(int64_t count, integer(Opt::kLocalNodes, 1, kMostSimulated));
  std::vector<cluster::Host> hosts;
  for (int64_t i = 0; i < count; ++i) hosts.push_back({fmt::format("node{}", i), std::nullopt});
  return hosts;
}

Result<void> Planner::plan_fan_out() {
  FanOut spec;
  spec.local = parsed_.given(Opt::kLocalNodes);
  MUSTER_TRY(spec.hosts, named_hosts());
  const int hosts = static_cast<int>(spec.hosts.size());
  if (standalone())
    return Error{ErrorKind::kUsage, "--standalone is a job of this node alone, and other nodes are named",
                 "leave one of them out"};
  NodeRange nodes{hosts, hosts};
  if (parsed_.given(Opt::kNnodes)) {
    auto wanted = parse_nodes(text(Opt::kNnodes));
    if (!wanted) return about(Opt::kNnodes, wanted.error());
    nodes = *wanted;
    if (nodes.max > hosts)
      return about(Opt::kNnodes, {ErrorKind::kUsage,
                                  fmt::format("{} nodes were asked for, and {} {} named", nodes.max, hosts,
                                              hosts == 1 ? "host is" : "hosts are"),
                                  "leave it out to use them all"});
  }
  note_ignored({Opt::kNodeRank, Opt::kMasterAddr, Opt::kRdzvEndpoint, Opt::kLocalAddr},
               "the nodes are started from here and told where to meet");
  if (parsed_.given(Opt::kTokenFile) || parsed_.flag(Opt::kInsecure))
    note(LogLevel::kInfo,
         "--token-file and --insecure have no effect: every job that is started from here has a fresh token");
  if (parsed_.has(Opt::kMasterPort)) {
    MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 0, UINT16_MAX));
    job_.master_port = static_cast<uint16_t>(port);
  }
  MUSTER_TRY(job_.run_id, common_id());

  spec.membership.min_nodes = nodes.min;
  spec.membership.max_nodes = nodes.max;
  spec.membership.expected = hosts;
  for (const cluster::Host& host : spec.hosts) spec.membership.expected_hosts.push_back(host.name);
  MUSTER_TRY_VOID(plan_membership(spec.membership, false));
  spec.ssh.ssh = text(Opt::kSsh);
  spec.ssh.options = parsed_.list(Opt::kSshOption);
  const std::string& push = text(Opt::kPushBinary);
  using Push = cluster::ssh::Options::Push;
  spec.ssh.push = push == "always" ? Push::kAlways : push == "never" ? Push::kNever : Push::kAuto;
  spec.ports = ports_;
  spec.interface = text(Opt::kInterface);
  spec.description.muster_version = version();
  spec.description.verb = info(verb_).name;
  spec.description.environment =
      spec.local ? without_token(facts_.environment) : environment_to_send(facts_.environment);
  plan_.mode_why = parsed_.given(Opt::kHosts)      ? fmt::format("--hosts names {}", hosts)
                   : parsed_.given(Opt::kHostfile) ? fmt::format("--hostfile names {}", hosts)
                                                   : fmt::format("--local-nodes {}", hosts);
  plan_.nodes = std::move(spec);
  return {};
}

// --- Nodes that each run their own muster ---------------------------------------------------------------------------

Result<void> Planner::plan_own_node() {
  auto nodes = parse_nodes(text(Opt::kNnodes));
  if (!nodes) return about(Opt::kNnodes, nodes.error());
  bool is_static = text(Opt::kRdzvBackend) == "static";
  // Nobody else can find port 0: torchrun's way to say that there is nobody else.
  auto endpoint = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
  const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty() && (is_static || !endpoint || endpoint->port != 0);
  // A range means something to c10d only. torchrun's default is static all the same, and takes MAX.
  const bool numbered = parsed_.given(Opt::kNodeRank) || (parsed_.given(Opt::kMasterAddr) && !has_endpoint);
  if (ours_ && nodes->min < nodes->max && !parsed_.given(Opt::kRdzvBackend) && !numbered) is_static = false;

  const int needed = is_static ? nodes->max : nodes->min;
  if (standalone() && nodes->min > 1)
    return Error{ErrorKind::kUsage,
                 fmt::format("--standalone is a job of this node alone, and --nnodes asks for {}", nodes->min),
                 "leave one of them out"};
  if (standalone() || nodes->max == 1 || (needed == 1 && !has_endpoint)) return plan_alone(*nodes);
  return plan_symmetric(is_static ? NodeRange{nodes->max, nodes->max} : *nodes, is_static);
}

Result<void> Planner::plan_alone(const NodeRange& nodes) {
  if (nodes.max > 1)
    note(LogLevel::kWarning,
         fmt::format("--nnodes {}: starting on this node alone; for more give --rdzv-endpoint HOST on every node, or "
                     "--hosts here",
                     text(Opt::kNnodes)));
  MUSTER_TRY(int64_t rank, integer(Opt::kNodeRank, INT32_MIN, INT32_MAX));
  if (rank != 0 && text(Opt::kRdzvBackend) == "static" && !standalone())
    return about(Opt::kNodeRank, {ErrorKind::kUsage, fmt::format("there is no node {} in a job of one node", rank),
                                  "leave it out, or say how many nodes there are with --nnodes"});
  plan_.mode_why = "one node";
  return {};
}

Result<void> Planner::plan_symmetric(const NodeRange& nodes, bool is_static) {
  Symmetric spec;
  MUSTER_TRY(Endpoint endpoint, meeting_point(is_static));
  spec.host = endpoint.host;
  spec.port = static_cast<uint16_t>(endpoint.port);
  spec.membership.min_nodes = nodes.min;
  spec.membership.max_nodes = nodes.max;
  spec.membership.fixed_ranks = is_static;
  MUSTER_TRY_VOID(plan_membership(spec.membership, is_static));

  agent::Membership membership;
  membership.min_nodes = nodes.min;
  membership.max_nodes = nodes.max;
  membership.join_timeout = spec.membership.join_timeout;
  membership.coordinators = {endpoint_text(endpoint)};
  membership.ports = ports_;
  membership.interface = text(Opt::kInterface);
  if (is_static) {
    MUSTER_TRY(membership.rank, node_rank(nodes.max, endpoint));
  } else {
    note_ignored({Opt::kNodeRank, Opt::kMasterAddr, Opt::kMasterPort}, "c10d gives ranks by the order of arrival");
  }
  note_ignored({Opt::kLocalAddr}, "what other nodes have been seen to reach is used; --interface chooses the network");
  job_.membership = membership;
  MUSTER_TRY(spec.hosts, who_hosts(is_static, endpoint));
  job_.rdzv_backend = is_static ? "static" : "c10d";
  job_.master_addr = is_static ? endpoint.host : "";
  MUSTER_TRY(job_.run_id, common_id());
  MUSTER_TRY(job_.membership->token, token(job_.run_id, endpoint.port));
  plan_.mode_why = fmt::format("--nnodes {}, no hosts named", text(Opt::kNnodes));
  plan_.nodes = std::move(spec);
  return {};
}

// Everybody must name the same place: nothing is guessed, except where torchrun does.
Result<Endpoint> Planner::meeting_point(bool is_static) {
  const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty();
  const Opt id = has_endpoint || !is_static ? Opt::kRdzvEndpoint : Opt::kMasterAddr;
  if (!has_endpoint && !(is_static && parsed_.given(Opt::kMasterAddr))) {
    if (ours_)
      return about(Opt::kNnodes,
                   {ErrorKind::kUsage, fmt::format("nobody says where {} nodes meet", text(Opt::kNnodes)),
                    fmt::format("give {} HOST on every node (localhost: all are on this machine), or start "
                                "them all from here with --hosts",
                                dashed(option(id)))});
    note(LogLevel::kWarning, fmt::format("no {}: only nodes on this machine can meet here", dashed(option(id))));
  }
  Endpoint endpoint;
  if (id == Opt::kMasterAddr) {
    auto address = parse_endpoint(text(Opt::kMasterAddr) + ":0", 0);
    if (!address) return about(Opt::kMasterAddr, address.error());
    endpoint = {address->host, kStaticPort};
    if (parsed_.has(Opt::kMasterPort)) {
      MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 1, UINT16_MAX));
      endpoint.port = static_cast<int>(port);
    }
    return endpoint;
  }
  auto given = parse_endpoint(text(Opt::kRdzvEndpoint), is_static ? -1 : kC10dPort);
  if (!given) return about(Opt::kRdzvEndpoint, given.error());
  if (given->port < 1)
    return about(Opt::kRdzvEndpoint,
                 {ErrorKind::kUsage, fmt::format("'{}' has no port that all nodes know", text(Opt::kRdzvEndpoint)),
                  is_static ? fmt::format("write {}:{}, or use --rdzv-backend c10d", given->host, kStaticPort)
                            : fmt::format("write {}, or {}:{}", given->host, given->host, kC10dPort)});
  return given;
}

Result<int> Planner::node_rank(int nodes, const Endpoint& endpoint) {
  MUSTER_TRY(int64_t rank, integer(Opt::kNodeRank, INT32_MIN, INT32_MAX));
  if (rank < 0 || rank >= nodes)
    return about(Opt::kNodeRank,
                 {ErrorKind::kUsage, fmt::format("there is no node {} in a job of {} nodes", rank, nodes),
                  fmt::format("number them from 0 to {}", nodes - 1)});
  if (!ours_ || parsed_.given(Opt::kNodeRank)) return static_cast<int>(rank);
  // Two nodes that both take themselves for the first would wait for each other.
  auto first = facts_.is_this_machine(endpoint.host);
  if (first && *first) return static_cast<int>(rank);
  return about(
      Opt::kNodeRank,
      {ErrorKind::kUsage, fmt::format("nobody says which node this is; not the first, which is {}", endpoint.host),
       fmt::format("number them from 0 to {}, or use --rdzv-backend c10d, which does it by itself", nodes - 1)});
}

Result<Symmetric::Hosts> Planner::who_hosts(bool is_static, const Endpoint& endpoint) {
  if (is_static) return job_.membership->rank == 0 ? Symmetric::Hosts::kYes : Symmetric::Hosts::kNo;
  if (auto type = conf_.find("store_type"); type != conf_.end() && type->second == "file")
    return about(Opt::kRdzvConf,
                 {ErrorKind::kUsage, "store_type=file is not supported", "leave it out: nodes meet over TCP"});
  if (auto answer = conf_.find("is_host"); answer != conf_.end())
    return says_yes(answer->second) ? Symmetric::Hosts::kYes : Symmetric::Hosts::kNo;
  // A name that nobody here knows is not this machine's.
  auto own = facts_.is_this_machine(endpoint.host);
  return own && *own ? Symmetric::Hosts::kGuess : Symmetric::Hosts::kNo;
}

// Derived with what all nodes of the job, and no other job, have in common. Not with the host of the endpoint: the node
// that has it may be told localhost.
Result<rendezvous::Token> Planner::token(const std::string& run_id, int port) {
  const std::string job = fmt::format("{}\n{}", port, run_id);
  if (parsed_.flag(Opt::kInsecure)) {
    if (parsed_.given(Opt::kTokenFile))
      return Error{ErrorKind::kUsage, "--insecure and --token-file exclude each other", "leave one of them out"};
    return rendezvous::Token();
  }
  if (parsed_.given(Opt::kTokenFile)) {
    const std::string& file = text(Opt::kTokenFile);
    auto secret = facts_.read_file(file);
    if (!secret) return about(Opt::kTokenFile, {ErrorKind::kUsage, secret.error().message, "give a file you may read"});
    if (trim(*secret).empty())
      return about(Opt::kTokenFile, {ErrorKind::kUsage, fmt::format("'{}' is empty", file), "write any text into it"});
    return rendezvous::Token::derive(trim(*secret), job);
  }
  if (auto secret = facts_.getenv(std::string(kTokenVariable)); secret && !trim(*secret).empty())
    return rendezvous::Token::derive(trim(*secret), job);
  MUSTER_TRY(std::optional<std::string> key, facts_.user_key(ours_ && !parsed_.flag(Opt::kDryRun)));
  if (key) return rendezvous::Token::derive(*key, job);
  if (!ours_)
    note(LogLevel::kWarning,
         "no MUSTER_TOKEN, no --token-file and no key: as with torchrun, whoever reaches the port can join");
  return rendezvous::Token();
}

// How many nodes share this machine's cores: simulated ones do; spares among them have no workers.
int Planner::nodes_here() const {
  if (!assignment_ || !parsed_.given(Opt::kLocalNodes)) return 1;
  const auto simulated = parse_int(text(Opt::kLocalNodes)).value_or(1);
  auto wanted = parse_nodes(text(Opt::kNnodes));
  const bool fewer = parsed_.given(Opt::kNnodes) && wanted && wanted->max < simulated;
  return fewer ? wanted->max : static_cast<int>(simulated);
}

// --- Both -----------------------------------------------------------------------------------------------------------

Result<std::optional<Duration>> Planner::conf_seconds(const std::string& key) const {
  auto found = conf_.find(key);
  if (found == conf_.end()) return std::optional<Duration>();
  constexpr int64_t kMost = 100'000'000;
  auto value = parse_int(found->second);
  if (!value || *value < 1 || *value > kMost)
    return about(Opt::kRdzvConf, {ErrorKind::kUsage, fmt::format("'{}' is no value for {}", found->second, key),
                                  "write a whole number above 0"});
  return std::optional<Duration>(std::chrono::seconds(*value));
}

Result<void> Planner::plan_membership(rendezvous::MembershipOptions& options, bool is_static) {
  MUSTER_TRY(options.join_timeout, seconds(Opt::kJoinTimeout, 1));
  if (!parsed_.given(Opt::kJoinTimeout)) {
    MUSTER_TRY(std::optional<Duration> conf, conf_seconds(is_static ? "timeout" : "join_timeout"));
    if (conf || (is_static && !ours_)) options.join_timeout = conf.value_or(kStaticTimeout);
  }
  if (!ours_) options.last_call = kTorchrunLastCall;
  if (!is_static) {
    MUSTER_TRY(std::optional<Duration> conf, conf_seconds("last_call_timeout"));
    if (conf) options.last_call = *conf;
  }
  MUSTER_TRY(options.lease, seconds(Opt::kLease, std::chrono::duration<double>(kLeastLease).count()));
  if (!is_static && !parsed_.given(Opt::kLease)) {
    MUSTER_TRY(std::optional<Duration> interval, conf_seconds("keep_alive_interval"));
    MUSTER_TRY(std::optional<Duration> attempts, conf_seconds("keep_alive_max_attempt"));
    constexpr int kAttempts = 3;
    constexpr Duration kInterval = std::chrono::seconds(5);  // torchrun's, both
    if (interval || attempts)
      options.lease = std::max(
          kLeastLease, interval.value_or(kInterval) * (attempts ? *attempts / std::chrono::seconds(1) : kAttempts));
  }
  const std::string& grow = text(Opt::kGrow);
  using rendezvous::Grow;
  options.grow = grow == "never" ? Grow::kNever : grow == "restart" ? Grow::kRestart : Grow::kNow;
  options.crash_loop = ours_ ? kCrashLoop : 0;
  if (parsed_.given(Opt::kCrashLoop)) {
    MUSTER_TRY(int64_t times, integer(Opt::kCrashLoop, 0, INT32_MAX));
    options.crash_loop = static_cast<int>(times);
  }
  return {};
}

// The id that all nodes have. One that is started from here has a fresh one; else nobody could make one that the others
// know.
Result<std::string> Planner::common_id() {
  const bool from_here =
      assignment_ || parsed_.given(Opt::kHosts) || parsed_.given(Opt::kHostfile) || parsed_.given(Opt::kLocalNodes);
  if (from_here && !parsed_.given(Opt::kRdzvId)) return facts_.uuid();
  if (text(Opt::kRdzvId).empty())
    return about(Opt::kRdzvId, {ErrorKind::kUsage, "it is empty", "give all nodes the same name, or leave it out"});
  return text(Opt::kRdzvId);
}

void Planner::note_ignored(std::initializer_list<Opt> ids, std::string_view why) {
  std::vector<std::string> names;
  for (Opt id : ids)
    if (parsed_.given(id)) names.push_back(dashed(option(id)));
  if (names.empty()) return;
  note(LogLevel::kWarning, fmt::format("{} {} ignored: {}", join(names, ", "), names.size() == 1 ? "is" : "are", why));
}

// What the other steps have found out in the meantime.
void Planner::finish_nodes() {
  // Workers that host the store themselves cannot have the port at which the nodes meet.
  if (job_.membership && job_.rdzv_backend == "static" && !assignment_)
    job_.membership->store_on_coordinator_port = job_.store_host == agent::StoreHost::kAgent;
  if (FanOut* spec = fan_out()) {
    spec->membership.max_restarts = job_.max_restarts;
    spec->job = job_;
  } else if (auto* symmetric = std::get_if<Symmetric>(&plan_.nodes)) {
    symmetric->membership.max_restarts = job_.max_restarts;
    symmetric->job = job_;
  }
}

}  // namespace muster::cli
