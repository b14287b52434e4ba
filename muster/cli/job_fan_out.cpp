#include <algorithm>

#include "muster/base/version.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/node_environment.h"
#include "muster/cli/verbs.h"
#include "muster/cluster/adapters.h"

// Nodes that are started from here.
namespace muster::cli {
namespace {

constexpr int64_t kMostSimulated = 4096;  // nodes on one machine

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
bool continues_list(const std::vector<cluster::Host>& known, const std::string& word) {
  auto hosts = cluster::parse_hosts(word);
  return hosts && std::ranges::all_of(*hosts, [&](const cluster::Host& host) {
           const std::string shape = without_numbers(host.name);
           const auto alike = [&](const cluster::Host& other) { return without_numbers(other.name) == shape; };
           return shape != host.name && std::ranges::any_of(known, alike);
         });
}

}  // namespace

// "--hosts n1 n2 train.py": n2 would be the program. The nodes may have programs that are not here, so that only words
// that look like the hosts are refused.
Result<void> Planner::check_hosts_in_front() const {
  if (parsed_.before_program != Opt::kHosts || assignment_ || parsed_.has(Opt::kContainer)) return {};
  auto known = cluster::parse_hosts(text(Opt::kHosts));
  if (!known) return {};  // plan_named_hosts() refuses it
  auto is_here = [this](const std::string& word) {
    return facts_.path_kind(word) != PathKind::kMissing || facts_.find_program(word).ok();
  };
  std::string hosts = text(Opt::kHosts);
  auto word = parsed_.words.begin();
  for (; word != parsed_.words.end() && continues_list(*known, *word) && !is_here(*word); ++word) hosts += "," + *word;
  if (word == parsed_.words.begin() || word == parsed_.words.end() || word->starts_with('-')) return {};
  return about(Opt::kHosts, {ErrorKind::kUsage,
                             fmt::format("the list ends at the blank, and '{}' is not a program", parsed_.words[0]),
                             fmt::format("write --hosts {} {}", hosts, *word)});
}

// Adds the same hint on a node that does not have the program: the names of the hosts have nothing in common then.
Error Planner::with_hint_of_hosts(Error missing) const {
  const bool plain = !parsed_.words.empty() && parsed_.words[0].find('/') == std::string::npos;
  if (missing.kind == ErrorKind::kNotFound && parsed_.before_program == Opt::kHosts && plain &&
      parsed_.words.size() > 1)
    missing.hint += fmt::format("{}if it is a host, write --hosts {},{}", missing.hint.empty() ? "" : "; ",
                                text(Opt::kHosts), parsed_.words[0]);
  return missing;
}

Result<std::vector<cluster::Host>> Planner::named_hosts() {
  if (parsed_.given(Opt::kHosts)) {
    auto hosts = cluster::parse_hosts(text(Opt::kHosts));
    if (!hosts) return about(Opt::kHosts, hosts.error());
    return hosts;
  }
  if (parsed_.given(Opt::kHostfile)) {
    const std::string& file = text(Opt::kHostfile);
    auto content = facts_.read_file(file);
    if (!content)
      return about(Opt::kHostfile, {ErrorKind::kUsage, content.error().message, "give a file you may read"});
    auto hosts = cluster::parse_hostfile(*content);
    if (!hosts) return about(Opt::kHostfile, hosts.error());
    if (hosts->empty())
      return about(Opt::kHostfile,
                   {ErrorKind::kUsage, fmt::format("'{}' has no hosts in it", file), "write one per line"});
    return hosts;
  }
  MUSTER_TRY(int64_t count, integer(Opt::kLocalNodes, 1, kMostSimulated));
  std::vector<cluster::Host> hosts;
  for (int64_t i = 0; i < count; ++i) hosts.push_back({fmt::format("node{}", i), std::nullopt});
  return hosts;
}

Result<void> Planner::plan_named_hosts() {
  MUSTER_TRY(std::vector<cluster::Host> named, named_hosts());
  const int hosts = static_cast<int>(named.size());
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
  if (!parsed_.given(Opt::kLocalNodes)) note_strangers(named);
  note_ignored({Opt::kNodeRank, Opt::kMasterAddr, Opt::kRdzvEndpoint, Opt::kLocalAddr},
               "the nodes are started from here and told where to meet");
  plan_.mode_why = parsed_.given(Opt::kHosts)      ? fmt::format("--hosts names {}", hosts)
                   : parsed_.given(Opt::kHostfile) ? fmt::format("--hostfile names {}", hosts)
                                                   : fmt::format("--local-nodes {}", hosts);
  return plan_fan_out(std::move(named), nodes,
                      parsed_.given(Opt::kLocalNodes) ? cluster::local::adapter() : cluster::ssh::adapter());
}

// A host that no resolver knows may be ssh's name for this one.
Result<void> Planner::check_loopback(const std::vector<cluster::Host>& hosts) const {
  if (!loopback_) return {};
  for (const cluster::Host& host : hosts)
    if (auto own = facts_.is_this_machine(host.name); own && !*own)
      return about(Opt::kInterface,
                   {ErrorKind::kUsage,
                    fmt::format("{} is loopback, where {} cannot reach this machine", text(Opt::kInterface), host.name),
                    "name the interface of the network that they share"});
  return {};
}

// A program, whose path may have blanks; else a command with arguments.
Result<void> Planner::plan_ssh(cluster::SshCommand& ssh) const {
  const std::string& command = text(Opt::kSsh);
  ssh.ssh = command;
  auto found = facts_.find_program(command);
  if (!found) {
    auto words = split_command(command);
    if (!words) return about(Opt::kSsh, words.error());
    ssh.ssh = words->front();
    ssh.arguments.assign(words->begin() + 1, words->end());
    if (!ssh.arguments.empty()) found = facts_.find_program(ssh.ssh);
  }
  if (found || (!parsed_.given(Opt::kSsh) && parsed_.flag(Opt::kDryRun))) return {};
  return about(Opt::kSsh, {ErrorKind::kUsage, found.error().message, "name the ssh to use, or install one"});
}

Result<void> Planner::plan_fan_out(std::vector<cluster::Host> hosts, const NodeRange& nodes,
                                   const cluster::Adapter& adapter) {
  launcher::FanOut spec;
  if (!adapter.is_local()) MUSTER_TRY_VOID(check_loopback(hosts));
  spec.adapter = &adapter;
  spec.hosts = std::move(hosts);
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
  spec.membership.expected = static_cast<int>(spec.hosts.size());
  for (const cluster::Host& host : spec.hosts) spec.membership.expected_hosts.push_back(host.name);
  MUSTER_TRY_VOID(plan_membership(spec.membership, false));
  if (&adapter == &cluster::ssh::adapter()) MUSTER_TRY_VOID(plan_ssh(spec.start.ssh));
  spec.start.ssh.options = parsed_.list(Opt::kSshOption);
  const std::string& push = text(Opt::kPushBinary);
  using cluster::Push;
  spec.start.push = push == "always" ? Push::kAlways : push == "never" ? Push::kNever : Push::kAuto;
  spec.ports = ports_;
  spec.interface = text(Opt::kInterface);
  spec.description.muster_version = version();
  spec.description.verb = info(verb_).name;
  spec.description.environment =
      adapter.is_local() ? without_token(facts_.environment) : environment_to_send(facts_.environment);
  MUSTER_TRY_VOID(plan_tools(spec));
  MUSTER_TRY_VOID(forward_devices(spec));
  plan_.nodes = std::move(spec);
  return {};
}

}  // namespace muster::cli
