#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cluster/adapters.h"
#include "muster/plan/known.h"
#include "muster/plan/node_environment.h"

// Nodes that are started from here.
namespace muster::plan {
namespace {

using job::Request;

// Hosts of a cluster have names that differ in numbers only: "n#" of n1 and n02, "#.#.#.#" of 10.0.0.7.
std::string without_numbers(std::string_view name) {
  std::string shape;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || !shape.ends_with('#')) shape += digit ? '#' : c;
  }
  return shape;
}

// True if each host in `word` has the name of a known host apart from digits.
bool continues_list(const std::vector<job::NamedHost>& known, const std::string& word) {
  auto hosts = cluster::parse_hosts(word);
  return hosts && std::ranges::all_of(*hosts, [&](const cluster::Host& host) {
           const std::string shape = without_numbers(host.name);
           const auto alike = [&](const job::NamedHost& other) { return without_numbers(other.name) == shape; };
           return shape != host.name && std::ranges::any_of(known, alike);
         });
}

Result<std::vector<cluster::Host>> named_hosts(const Request& request, const Known& known) {
  std::vector<cluster::Host> hosts;
  if (request.hostfile.given()) {
    auto content = known.file(*request.hostfile);
    if (!content)
      return request.hostfile.about({ErrorKind::kUsage, content.error().message, "give a file you may read"});
    auto listed = cluster::parse_hostfile(*content);
    if (!listed) return request.hostfile.about(listed.error());
    if (listed->empty())
      return request.hostfile.about(
          {ErrorKind::kUsage, fmt::format("'{}' has no hosts in it", *request.hostfile), "write one per line"});
    return listed;
  }
  for (const job::NamedHost& host : *request.hosts) hosts.push_back({host.name, host.workers});
  for (int i = 0; request.local_nodes.given() && i < *request.local_nodes; ++i)
    hosts.push_back({fmt::format("node{}", i), std::nullopt});
  return hosts;
}

// A host that no resolver knows may be ssh's name for this one.
Result<void> check_loopback(const Request& request, const std::vector<cluster::Host>& hosts, const Known& known) {
  if (!request.interface.given()) return {};
  MUSTER_TRY(const bool loopback, known.find<bool>(Topic::kIsLoopback, *request.interface));
  if (!loopback) return {};
  for (const cluster::Host& host : hosts)
    if (auto own = known.is_this_machine(host.name); own && !*own)
      return request.interface.about(
          {ErrorKind::kUsage,
           fmt::format("{} is loopback, where {} cannot reach this machine", *request.interface, host.name),
           "name the interface of the network that they share"});
  return {};
}

// A program, whose path may have blanks; else a command with arguments.
Result<cluster::SshCommand> plan_ssh(const Request& request, const Known& known) {
  cluster::SshCommand ssh;
  ssh.ssh = *request.ssh;
  auto found = known.find_program(ssh.ssh);
  if (!found) {
    auto words = split_command(*request.ssh);
    if (!words) return request.ssh.about(words.error());
    ssh.ssh = words->front();
    ssh.arguments.assign(words->begin() + 1, words->end());
    if (!ssh.arguments.empty()) found = known.find_program(ssh.ssh);
  }
  if (found || (!request.ssh.given() && request.dry_run)) return ssh;
  return request.ssh.about({ErrorKind::kUsage, found.error().message, "name the ssh to use, or install one"});
}

// As --hosts takes it.
std::string given_list(const std::vector<cluster::Host>& nodes) {
  constexpr size_t kMost = 16;
  if (nodes.size() > kMost) return "LIST";
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const cluster::Host& node : nodes) names.push_back(node.name);
  return join(names, ",");
}

// What the scheduler of this job starts agents with.
Result<void> plan_tools(const std::optional<cluster::Surroundings>& here, launcher::FanOut& spec, const Known& known,
                        Notes& notes) {
  spec.start.tools.words = spec.adapter->name();
  if (!here || spec.adapter != here->adapter) return {};
  auto tools = known.find<cluster::Tools>(Topic::kTools, std::string(spec.adapter->name()));
  if (!tools)
    return Error{ErrorKind::kUsage, fmt::format("this is the {}, and {}", here->what, tools.error().message),
                 fmt::format("{}, or reach them with ssh: --hosts {}", tools.error().hint, given_list(spec.hosts))};
  if (!tools->warning.empty()) notes.add(LogLevel::kWarning, tools->warning);
  spec.start.tools = *std::move(tools);
  spec.start.job_id = here->job_id;
  for (size_t i = 0; i < spec.hosts.size(); ++i)
    if (spec.hosts[i].name == here->node_name) spec.start.here = static_cast<int>(i);
  for (const std::string& name : spec.adapter->variables_to_send())
    if (auto value = known.plain().environment.get(name)) spec.description.environment.set(name, *value);
  return {};
}

}  // namespace

// "--hosts n1 n2 train.py": n2 would be the program. The nodes may have programs that are not here, so that only words
// that look like the hosts are refused.
Result<void> check_hosts_in_front(const Request& request, const Known& known) {
  if (request.hosts_before_program.empty() || request.container.given()) return {};
  auto is_here = [&](const std::string& word) {
    return known.path_kind(word) != PathKind::kMissing || known.find_program(word).ok();
  };
  std::string hosts = request.hosts_before_program;
  auto word = request.words.begin();
  for (; word != request.words.end() && continues_list(*request.hosts, *word) && !is_here(*word); ++word)
    hosts += "," + *word;
  if (word == request.words.begin() || word == request.words.end() || word->starts_with('-')) return {};
  return request.hosts.about({ErrorKind::kUsage,
                              fmt::format("the list ends at the blank, and '{}' is not a program", request.words[0]),
                              fmt::format("write --hosts {} {}", hosts, *word)});
}

// Adds the same hint on a node that does not have the program: the names of the hosts have nothing in common then.
Error with_hint_of_hosts(const Request& request, Error missing) {
  const bool plain = request.words[0].find('/') == std::string::npos;
  if (missing.kind == ErrorKind::kNotFound && !request.hosts_before_program.empty() && plain &&
      request.words.size() > 1)
    missing.hint += fmt::format("{}if it is a host, write --hosts {},{}", missing.hint.empty() ? "" : "; ",
                                request.hosts_before_program, request.words[0]);
  return missing;
}

Result<Nodes> plan_named_hosts(const Settled& settled, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  MUSTER_TRY(std::vector<cluster::Host> named, named_hosts(request, known));
  const int hosts = static_cast<int>(named.size());
  if (request.standalone)
    return Error{ErrorKind::kUsage, "--standalone is a job of this node alone, and other nodes are named",
                 "leave one of them out"};
  const job::NodeRange nodes = request.nnodes.given() ? *request.nnodes : job::NodeRange{hosts, hosts};
  if (nodes.max > hosts)
    return request.nnodes.about({ErrorKind::kUsage,
                                 fmt::format("{} nodes were asked for, and {} {} named", nodes.max, hosts,
                                             hosts == 1 ? "host is" : "hosts are"),
                                 "leave it out to use them all"});
  const bool simulated = request.local_nodes.given();
  if (!simulated) note_strangers(named, known, notes);
  notes.ignored({&request.node_rank, &request.master_addr, &request.endpoint, &request.local_addr},
                "the nodes are started from here and told where to meet");
  const cluster::Adapter& adapter = simulated ? cluster::local::adapter() : cluster::ssh::adapter();
  MUSTER_TRY(Nodes plan, plan_fan_out(settled, {std::move(named), nodes, &adapter}, known, notes));
  plan.why = simulated ? fmt::format("--local-nodes {}", hosts)
                       : fmt::format("{} names {}", request.hosts.given() ? "--hosts" : "--hostfile", hosts);
  return plan;
}

Result<Nodes> plan_fan_out(const Settled& settled, Started started, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  Nodes nodes;
  launcher::FanOut spec;
  spec.adapter = started.adapter;
  const bool local = spec.adapter->is_local();
  if (!local) MUSTER_TRY_VOID(check_loopback(request, started.hosts, known));
  spec.hosts = std::move(started.hosts);
  if (request.token_file.given() || request.insecure)
    notes.add(LogLevel::kInfo,
              "--token-file and --insecure have no effect: every job that is started from here has a fresh token");
  nodes.meeting.master_port = static_cast<uint16_t>(request.master_port->value_or(0));
  if (request.rdzv_id.given() && request.rdzv_id->empty()) return empty_id(request);
  nodes.meeting.run_id = request.rdzv_id.given() ? *request.rdzv_id : known.plain().uuid;

  spec.membership.min_nodes = started.nodes.min;
  spec.membership.max_nodes = started.nodes.max;
  spec.membership.expected = static_cast<int>(spec.hosts.size());
  for (const cluster::Host& host : spec.hosts) spec.membership.expected_hosts.push_back(host.name);
  plan_membership(request, false, spec.membership);
  if (spec.adapter == &cluster::ssh::adapter()) {
    MUSTER_TRY(spec.start.ssh, plan_ssh(request, known));
  }
  spec.start.ssh.options = request.ssh_options;
  using cluster::Push;
  spec.start.push = request.push == job::PushBinary::kAlways  ? Push::kAlways
                    : request.push == job::PushBinary::kNever ? Push::kNever
                                                              : Push::kAuto;
  spec.ports = request.ports;
  spec.interface = *request.interface;
  const Environment& own = known.plain().environment;
  spec.description.environment = local ? without_token(own) : environment_to_send(own);
  MUSTER_TRY_VOID(plan_tools(settled.here, spec, known, notes));
  MUSTER_TRY(nodes.devices, chosen_devices(spec, known, notes));
  MUSTER_TRY_VOID(share_out_processes(request, spec));
  nodes.start = std::move(spec);
  return nodes;
}

}  // namespace muster::plan
