#include <algorithm>

#include "muster/base/strings.h"
#include "muster/plan/known.h"

// Which nodes there are.
namespace muster::plan {
namespace {

using job::Request;

constexpr Duration kStaticTimeout = std::chrono::seconds(900);  // torchrun's
constexpr Duration kTorchrunLastCall = std::chrono::seconds(30);
constexpr Duration kLeastLease = std::chrono::seconds(2), kLongestLease = std::chrono::hours(24 * 365);

rendezvous::Grow grow_of(job::Growth growth) {
  using rendezvous::Grow;
  return growth == job::Growth::kNever ? Grow::kNever : growth == job::Growth::kRestart ? Grow::kRestart : Grow::kNow;
}

}  // namespace

// A job of one node needs none of them. What is wrong is wrong there too, and not only when the job grows.
Result<void> check_node_options(const Request& request, const Known& known) {
  if (request.token_file.given() && !request.insecure) MUSTER_TRY_VOID(read_token_file(request, known));
  return {};
}

Result<Nodes> plan_nodes(Settled& settled, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  MUSTER_TRY_VOID(check_node_options(request, known));
  std::vector<std::string> given;
  for (const job::Source* way :
       {static_cast<const job::Source*>(&request.hosts), static_cast<const job::Source*>(&request.hostfile),
        static_cast<const job::Source*>(&request.local_nodes)})
    if (way->given()) given.push_back(way->option());
  if (given.size() > 1)
    return Error{ErrorKind::kUsage, fmt::format("{} both say which nodes there are", join(given, " and ")),
                 "leave one of them out"};
  if (given.empty()) return plan_here(settled, known, notes);
  if (request.mode == job::Mode::kSymmetric || request.mode == job::Mode::kLocal)
    return Error{ErrorKind::kUsage, fmt::format("--mode: {} names nodes to start from here", given[0]),
                 "leave one of them out"};
  return plan_named_hosts(settled, known, notes);
}

// An agent: the launcher has decided all but what this machine has.
Nodes member_nodes(const Request& request, const Assignment& agent) {
  Nodes nodes;
  job::Membership& membership = nodes.membership.emplace();
  membership.token = agent.token;
  membership.coordinators = agent.endpoints;
  membership.position = agent.position;
  membership.output_to_launcher = true;
  membership.ports = request.ports;
  membership.interface = *request.interface;
  rendezvous::MembershipOptions options;  // the coordinator has them; the time is for both
  plan_membership(request, false, options);
  membership.join_timeout = options.join_timeout;
  nodes.meeting.run_id = agent.run_id;
  nodes.meeting.master_port = static_cast<uint16_t>(request.master_port->value_or(0));
  return nodes;
}

// As many as were asked for over all nodes; a spare is ready for the share of any.
Result<void> share_out_processes(const Request& request, launcher::FanOut& spec) {
  if (!request.processes) return {};
  const int nodes = spec.membership.max_nodes;
  const int processes = *request.processes;
  if (processes < nodes)
    return request.nproc.about({ErrorKind::kUsage, fmt::format("{} for {} nodes", processes, nodes),
                                fmt::format("ask for {} or more, or for fewer nodes with --nnodes", nodes)});
  for (int i = 0; i < static_cast<int>(spec.hosts.size()); ++i)
    spec.hosts[static_cast<size_t>(i)].workers = processes / nodes + (i < processes % nodes ? 1 : 0);
  return {};
}

// How many nodes share this machine's cores and GPUs; spares among them have no workers.
int simulated_nodes(const Request& request) {
  if (!request.local_nodes.given()) return 1;
  return request.nnodes.given() ? std::min(request.nnodes->max, *request.local_nodes) : *request.local_nodes;
}

void plan_membership(const Request& request, bool is_static, rendezvous::MembershipOptions& options) {
  const job::RendezvousConf& conf = *request.conf;
  options.join_timeout = *request.join_timeout;
  if (!request.join_timeout.given()) {
    const std::optional<Duration>& time = is_static ? conf.timeout : conf.join_timeout;
    if (time || (is_static && !request.ours())) options.join_timeout = time.value_or(kStaticTimeout);
  }
  if (!request.ours()) options.last_call = kTorchrunLastCall;
  if (!is_static && conf.last_call) options.last_call = *conf.last_call;
  options.lease = *request.lease;
  if (!is_static && !request.lease.given() && (conf.keep_alive_interval || conf.keep_alive_attempts)) {
    constexpr int kAttempts = 3;
    constexpr Duration kInterval = std::chrono::seconds(5);  // torchrun's, both
    const Duration interval = conf.keep_alive_interval.value_or(kInterval);
    const int attempts = std::max(1, conf.keep_alive_attempts.value_or(kAttempts));
    options.lease = std::clamp(interval, kLeastLease / attempts, kLongestLease / attempts) * attempts;
  }
  options.grow = grow_of(request.grow);
  options.max_restarts = request.max_restarts;
  options.crash_loop = request.crash_loop;
}

void Notes::ignored(std::initializer_list<const job::Source*> sources, std::string_view why, std::string_view what) {
  std::vector<std::string> names;
  for (const job::Source* source : sources)
    if (source->given()) names.push_back(source->option());
  if (names.empty()) return;
  add(LogLevel::kWarning, fmt::format("{} {} {}: {}", join(names, ", "), names.size() == 1 ? "is" : "are", what, why));
}

}  // namespace muster::plan
