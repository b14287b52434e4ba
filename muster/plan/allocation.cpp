#include <algorithm>

#include "muster/base/strings.h"
#include "muster/net/interfaces.h"
#include "muster/plan/known.h"
#include "muster/plan/mode.h"

// Nodes that a scheduler has given us, and what somebody preset: what they say is taken for the options that are not
// given, and those that are given are checked against it.
namespace muster::plan {
namespace {

using cluster::Role;
using job::Mode;
using job::NodeRange;
using job::Request;

std::string_view short_name(std::string_view name) { return name.substr(0, name.find('.')); }

bool is_among(const std::vector<cluster::Host>& nodes, std::string_view name) {
  return std::ranges::any_of(nodes, [&](const auto& node) { return short_name(node.name) == short_name(name); });
}

// Many a script has --standalone for the time when it was for one node, and the rest for several.
void forgive_standalone(Settled& settled, Notes& notes) {
  Request& request = settled.request;
  const auto& here = settled.here;
  const bool meets = request.master_addr.given() || request.endpoint.given();
  const bool allocation = here && here->role != Role::kWorker && here->role != Role::kPreset;
  if (!request.standalone || request.nnodes->min == 1 || !(meets || allocation)) return;
  notes.add(LogLevel::kWarning, fmt::format("--standalone is ignored: --nnodes asks for {}", request.nnodes->min));
  request.standalone = false;
}

// In a step $HOSTNAME is the machine that the job was submitted from: srun copies it. Nobody would host the job there.
void forgive_submit_host(Settled& settled, Notes& notes) {
  const auto& here = settled.here;
  Request& request = settled.request;
  if (!here || here->submit_host.empty()) return;
  const std::string& submitted = here->submit_host;
  if (is_among(here->nodes, submitted) || is_among(here->allocation, submitted)) return;
  for (auto* asked : {&request.master_addr, &request.endpoint}) {
    auto endpoint = parse_endpoint(**asked);
    if (!asked->given() || !endpoint || short_name(endpoint->host) != short_name(submitted)) continue;
    notes.add(
        LogLevel::kWarning,
        fmt::format("{} {} is ignored: {} is where the job was submitted, not one of its nodes ($HOSTNAME in a step is "
                    "not the node's)",
                    asked->option(), **asked, endpoint->host));
    *asked = asked == &request.master_addr ? Request().master_addr : Request().endpoint;
  }
}

// A batch script, a shell of salloc: the nodes are started from here.
Result<Nodes> plan_allocation(Settled& settled, std::vector<cluster::Host> nodes, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  const cluster::Surroundings& here = *settled.here;
  const auto have = static_cast<int>(nodes.size());
  NodeRange range{have, have};
  if (request.nnodes.given()) {
    range = *request.nnodes;
    if (range.min > have)
      return request.nnodes.about({ErrorKind::kUsage,
                                   fmt::format("{}, and {}", were_asked(range.min), has_nodes(here, nodes.size())),
                                   "leave it out to use them all, or ask the scheduler for more"});
    if (range.max > have)
      notes.add(LogLevel::kInfo,
                fmt::format("--nnodes {}: {}, so there will be no more", range.text(), has_nodes(here, nodes.size())));
    if (range.min == range.max) nodes.resize(static_cast<size_t>(range.max));
    range.max = std::min(range.max, have);
  }
  if (nodes.size() == 1 && is_own_node(here, nodes[0].name, known.plain().host))
    return plan_own_node(settled, known, notes);
  notes.ignored({&request.node_rank, &request.master_addr, &request.endpoint, &request.local_addr},
                "muster starts every node of the allocation itself and tells each where to meet", "not needed");
  MUSTER_TRY(Nodes plan, plan_fan_out(settled, {std::move(nodes), range, here.adapter}, known, notes));
  plan.why = here.what;
  return plan;
}

Result<Nodes> plan_forced_fan_out(Settled& settled, const Known& known, Notes& notes) {
  const auto& here = settled.here;
  if (!here || here->nodes.empty() || here->role == Role::kPreset || here->role == Role::kWorker)
    return Error{ErrorKind::kUsage, "--mode: there is no allocation here whose nodes could be started",
                 "name them with --hosts or --hostfile"};
  const bool one_of_many = here->role == Role::kOneNode && !here->allocation.empty();
  return plan_allocation(settled, one_of_many ? here->allocation : here->nodes, known, notes);
}

void settle_preset(Settled& settled, Notes& notes) {
  Request& request = settled.request;
  const cluster::Surroundings& here = *settled.here;
  const bool given =
      request.nnodes.given() || request.master_addr.given() || request.endpoint.given() || request.node_rank.given();
  if (given || !request.ours() || !here.world_nodes || *here.world_nodes == 1) return;
  request.nnodes.fill({*here.world_nodes, *here.world_nodes});
  request.node_rank.fill(*here.node_rank);
  request.master_addr.fill(here.master_addr);
  if (here.master_port && !request.master_port.given()) request.master_port.fill(*here.master_port);
  notes.add(LogLevel::kInfo, fmt::format("{}; to run on this node alone: --mode local", here.what));
}

}  // namespace

Result<Nodes> plan_here(Settled& settled, const Known& known, Notes& notes) {
  Request& request = settled.request;
  if (request.mode == Mode::kLocal) {
    if (request.nnodes->min > 1)
      return request.nnodes.about(
          {ErrorKind::kUsage, fmt::format("{}, and --mode local is this one alone", were_asked(request.nnodes->min)),
           "leave one of them out"});
    request.nnodes.fill({1, 1});
  }
  if (!surroundings_count(request)) return plan_own_node(settled, known, notes);
  if (!known.plain().here) return known.plain().here.error();
  settled.here = *known.plain().here;
  const auto& here = settled.here;
  forgive_standalone(settled, notes);
  forgive_submit_host(settled, notes);
  if (request.mode == Mode::kFanOut) return plan_forced_fan_out(settled, known, notes);
  const bool forced = request.mode == Mode::kSymmetric;
  if (here && here->role == Role::kHead && !forced) return plan_allocation(settled, here->nodes, known, notes);
  if (here && here->role == Role::kPreset) settle_preset(settled, notes);
  if (here && here->role == Role::kTask) MUSTER_TRY_VOID(settle_step(settled, known, notes));
  if (here && here->role == Role::kOneNode) MUSTER_TRY_VOID(settle_small_step(settled, known, notes));
  if (here && here->role == Role::kHead && !request.nnodes.given() && here->nodes.size() > 1) {
    const std::string on_all = here->adapter->run_on_all(*here);
    notes.add(LogLevel::kWarning,
              fmt::format("--mode symmetric without --nnodes: starting on this node alone, and {}; for all of them "
                          "leave --mode out{}",
                          has_nodes(*here, here->nodes.size()), on_all.empty() ? "" : ", or use " + on_all));
  }
  return plan_own_node(settled, known, notes);
}

// Of hosts that were named: ssh may reach even those that the scheduler has given to others. An address tells no name.
void note_strangers(const std::vector<cluster::Host>& hosts, const Known& known, Notes& notes) {
  const auto& here = known.plain().here;
  if (!here || !*here || (*here)->job_id.empty()) return;
  const std::vector<cluster::Host>& nodes = (*here)->allocation.empty() ? (*here)->nodes : (*here)->allocation;
  std::vector<cluster::Host> strangers;
  for (const cluster::Host& host : hosts)
    if (host.name != "localhost" && !net::parse_address(host.name, 0) && !is_among(nodes, host.name))
      strangers.push_back(host);
  if (nodes.empty() || strangers.empty()) return;
  notes.add(LogLevel::kWarning, fmt::format("{} {} not of {} job {}, which has {}", node_list(strangers),
                                            strangers.size() == 1 ? "is" : "are", (*here)->adapter->title(),
                                            (*here)->job_id, node_list(nodes)));
}

bool surroundings_count(const Request& request) {
  if (request.names_nodes() || request.mode == Mode::kLocal) return false;
  const bool alone = (request.standalone && request.nnodes->min == 1) || (!request.ours() && request.nnodes->max == 1);
  return !alone || request.mode != Mode::kAuto;
}

std::string count_of(size_t count) { return fmt::format("{} node{}", count, count == 1 ? "" : "s"); }

std::string were_asked(int count) {
  return fmt::format("{} {} asked for", count_of(static_cast<size_t>(count)), count == 1 ? "was" : "were");
}

// "Slurm job 12 has 2", "this step of Slurm job 12 has 2".
std::string has_nodes(const cluster::Surroundings& here, size_t count) {
  const std::string job = fmt::format("{} job {}", here.adapter->title(), here.job_id);
  return here.role == Role::kHead ? fmt::format("{} has {}", job, count)
                                  : fmt::format("this step of {} has {}", job, count);
}

}  // namespace muster::plan
