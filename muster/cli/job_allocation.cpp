#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/mode.h"
#include "muster/launcher/door.h"
#include "muster/net/interfaces.h"

// Nodes that a scheduler has given us, and what somebody preset: what they say is taken for the options that are not
// given, and those that are given are checked against it.
namespace muster::cli {
namespace {

using cluster::Role;
using cluster::Surroundings;

std::string count_of(size_t count) { return fmt::format("{} node{}", count, count == 1 ? "" : "s"); }
std::string were_asked(int count) {
  return fmt::format("{} {} asked for", count_of(static_cast<size_t>(count)), count == 1 ? "was" : "were");
}

// "Slurm job 12 has 2", "this step of Slurm job 12 has 2".
std::string has_nodes(const Surroundings& here, size_t count) {
  const std::string job = fmt::format("{} job {}", here.adapter->title(), here.job_id);
  return here.role == Role::kHead ? fmt::format("{} has {}", job, count)
                                  : fmt::format("this step of {} has {}", job, count);
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

}  // namespace

Result<void> Planner::plan_here() {
  auto asked = parse_nodes(text(Opt::kNnodes));
  if (!asked) return about(Opt::kNnodes, asked.error());
  const std::string& mode = text(Opt::kMode);
  if (mode == "local") return plan_local(*asked);
  if (!surroundings_count(verb_, parsed_)) return plan_own_node();
  MUSTER_TRY(here_, cluster::detect(facts_.getenv, facts_.read_file));
  forgive_standalone(*asked);
  forgive_submit_host();
  if (mode == "fanout") return plan_forced_fan_out(*asked);
  if (!here_ || here_->role == Role::kWorker) return plan_own_node();
  if (here_->role == Role::kPreset) return plan_preset();
  if (here_->role == Role::kTask) return plan_step(*asked, mode == "symmetric");
  if (here_->role == Role::kOneNode) return plan_small_step(*asked, mode == "symmetric");
  if (mode != "symmetric") return plan_allocation(here_->nodes, *asked);
  const std::string on_all = here_->adapter->run_on_all(*here_);
  if (!parsed_.given(Opt::kNnodes) && here_->nodes.size() > 1)
    note(LogLevel::kWarning,
         fmt::format("--mode symmetric without --nnodes: starting on this node alone, and {}; for all of them leave "
                     "--mode out{}",
                     has_nodes(*here_, here_->nodes.size()), on_all.empty() ? "" : ", or use " + on_all));
  return plan_own_node();
}

// Of hosts that were named: ssh may reach even those that the scheduler has given to others. An address tells no name.
void Planner::note_strangers(const std::vector<cluster::Host>& hosts) {
  auto here = cluster::detect(facts_.getenv, facts_.read_file);
  if (!here || !*here || (*here)->job_id.empty()) return;
  const std::vector<cluster::Host>& nodes = (*here)->allocation.empty() ? (*here)->nodes : (*here)->allocation;
  const auto short_name = [](std::string_view name) { return name.substr(0, name.find('.')); };
  std::vector<cluster::Host> strangers;
  for (const cluster::Host& host : hosts) {
    const auto is_it = [&](const cluster::Host& node) { return short_name(node.name) == short_name(host.name); };
    if (host.name == "localhost" || net::parse_address(host.name, 0)) continue;
    if (!std::ranges::any_of(nodes, is_it)) strangers.push_back(host);
  }
  if (nodes.empty() || strangers.empty()) return;
  note(LogLevel::kWarning,
       fmt::format("{} {} not of {} job {}, which has {}", node_list(strangers), strangers.size() == 1 ? "is" : "are",
                   (*here)->adapter->title(), (*here)->job_id, node_list(nodes)));
}

// --mode local
Result<void> Planner::plan_local(const NodeRange& asked) {
  if (asked.min > 1)
    return about(Opt::kNnodes,
                 {ErrorKind::kUsage, fmt::format("{}, and --mode local is this one alone", were_asked(asked.min)),
                  "leave one of them out"});
  fill(Opt::kNnodes, "1");
  return plan_own_node();
}

Result<void> Planner::plan_forced_fan_out(const NodeRange& asked) {
  if (!here_ || here_->nodes.empty() || here_->role == Role::kPreset || here_->role == Role::kWorker)
    return about(Opt::kMode, {ErrorKind::kUsage, "there is no allocation here whose nodes could be started",
                              "name them with --hosts or --hostfile"});
  const bool one_of_many = here_->role == Role::kOneNode && !here_->allocation.empty();
  return plan_allocation(one_of_many ? here_->allocation : here_->nodes, asked);
}

// Many a script has --standalone for the time when it was for one node, and the rest for several.
void Planner::forgive_standalone(const NodeRange& asked) {
  const bool meets = parsed_.given(Opt::kMasterAddr) || parsed_.given(Opt::kRdzvEndpoint);
  const bool allocation = here_ && here_->role != Role::kWorker && here_->role != Role::kPreset;
  if (!standalone() || asked.min == 1 || !(meets || allocation)) return;
  note(LogLevel::kWarning, fmt::format("--standalone is ignored: --nnodes asks for {}", asked.min));
  parsed_.setting(Opt::kStandalone) = {};
}

// In a step $HOSTNAME is the machine that the job was submitted from: srun copies it. Nobody would host the job there.
void Planner::forgive_submit_host() {
  if (!here_ || here_->submit_host.empty()) return;
  const auto short_name = [](std::string_view name) { return name.substr(0, name.find('.')); };
  const std::string& submitted = here_->submit_host;
  const auto is_it = [&](const cluster::Host& node) { return short_name(node.name) == short_name(submitted); };
  if (std::ranges::any_of(here_->nodes, is_it) || std::ranges::any_of(here_->allocation, is_it)) return;
  for (Opt id : {Opt::kMasterAddr, Opt::kRdzvEndpoint}) {
    if (!parsed_.given(id)) continue;
    auto endpoint = parse_endpoint(text(id), -1);
    if (!endpoint || short_name(endpoint->host) != short_name(submitted)) continue;
    note(
        LogLevel::kWarning,
        fmt::format("{} {} is ignored: {} is where the job was submitted, not one of its nodes ($HOSTNAME in a step is "
                    "not the node's)",
                    dashed(option(id)), text(id), endpoint->host));
    const char* usual = option(id).default_value;
    parsed_.setting(id) = {Source::kDefault, {usual ? usual : ""}};
  }
}

// Takes a value for an option that was not given.
void Planner::fill(Opt id, std::string value) { parsed_.setting(id) = {Source::kSurroundings, {std::move(value)}}; }

// --- A batch script, a shell of salloc -------------------------------------------------------------------------------

Result<void> Planner::plan_allocation(std::vector<cluster::Host> nodes, const NodeRange& asked) {
  const auto have = static_cast<int>(nodes.size());
  NodeRange range{have, have};
  if (parsed_.given(Opt::kNnodes)) {
    range = asked;
    if (asked.min > have)
      return about(Opt::kNnodes, {ErrorKind::kUsage,
                                  fmt::format("{}, and {}", were_asked(asked.min), has_nodes(*here_, nodes.size())),
                                  "leave it out to use them all, or ask the scheduler for more"});
    if (asked.max > have) {
      note(LogLevel::kInfo, fmt::format("--nnodes {}: {}, so there will be no more", text(Opt::kNnodes),
                                        has_nodes(*here_, nodes.size())));
      range.max = have;
    }
    if (asked.min == asked.max) nodes.resize(static_cast<size_t>(asked.max));
  }
  if (nodes.size() == 1 && is_own_node(*here_, nodes[0].name, job_.host)) return plan_own_node();
  note_ignored({Opt::kNodeRank, Opt::kMasterAddr, Opt::kRdzvEndpoint, Opt::kLocalAddr},
               "muster starts every node of the allocation itself and tells each where to meet", "not needed");
  plan_.mode_why = here_->what;
  return plan_fan_out(std::move(nodes), range, *here_->adapter);
}

// What the scheduler of this job starts agents with.
Result<void> Planner::plan_tools(launcher::FanOut& spec) {
  spec.start.tools.words = spec.adapter->name();
  if (!here_ || spec.adapter != here_->adapter) return {};
  auto tools = spec.adapter->find_tools(facts_.getenv, facts_.find_program, facts_.read_file);
  if (!tools)
    return Error{ErrorKind::kUsage, fmt::format("this is the {}, and {}", here_->what, tools.error().message),
                 fmt::format("{}, or reach them with ssh: --hosts {}", tools.error().hint, given_list(spec.hosts))};
  if (!tools->warning.empty()) note(LogLevel::kWarning, tools->warning);
  spec.start.tools = *std::move(tools);
  spec.start.job_id = here_->job_id;
  for (size_t i = 0; i < spec.hosts.size(); ++i)
    if (spec.hosts[i].name == here_->node_name) spec.start.here = static_cast<int>(i);
  for (const std::string& name : spec.adapter->variables_to_send())
    if (const std::string* value = facts_.environment.find(name)) spec.description.environment.set(name, *value);
  return {};
}

// --- A step of srun --------------------------------------------------------------------------------------------------

Result<void> Planner::plan_step(const NodeRange& asked, bool forced) {
  MUSTER_TRY_VOID(refuse_bound_gpus());
  bool meets = parsed_.given(Opt::kMasterAddr) || !text(Opt::kRdzvEndpoint).empty();
  if (!here_->in_step) return plan_task(meets);
  const auto have = static_cast<int>(here_->nodes.size());
  NodeRange range = asked;
  if (!parsed_.given(Opt::kNnodes)) {
    range = {have, have};
    fill(Opt::kNnodes, std::to_string(have));
  }
  if (!forced) MUSTER_TRY_VOID(check_step(range, meets));
  if (here_->terminal)
    note(LogLevel::kWarning,
         fmt::format("this is a terminal of a step on {}, each of which must run muster; if only this one does: --mode "
                     "fanout",
                     count_of(here_->nodes.size())));
  // A range is c10d's, which numbers nodes itself.
  const bool numbered = range.min == range.max && text(Opt::kRdzvBackend) == "static";
  if (numbered && !meets && parsed_.given(Opt::kMasterPort)) {
    fill(Opt::kMasterAddr, here_->nodes[0].name);
    meets = true;
  }
  if (numbered && range.max == have) MUSTER_TRY_VOID(number_node(meets));
  derived_ = !meets;
  return plan_own_node();
}

Result<void> Planner::check_step(const NodeRange& asked, bool meets) {
  const auto have = static_cast<int>(here_->nodes.size());
  if (asked.min > have)
    return about(
        Opt::kNnodes,
        {ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked.min), has_nodes(*here_, here_->nodes.size())),
         fmt::format("leave it out, or start it with srun -N {}; where nodes of several steps "
                     "meet, add --mode symmetric",
                     asked.min)});
  if (!meets && asked.min == asked.max && asked.max < have)
    return about(
        Opt::kNnodes,
        {ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked.max), has_nodes(*here_, here_->nodes.size())),
         fmt::format("leave it out, or start it with srun -N {}", asked.max)});
  return {};
}

// Which node this is, where that was not said or cannot be.
Result<void> Planner::number_node(bool meets) {
  const std::string rank = std::to_string(*here_->node_rank);
  const bool given = parsed_.given(Opt::kNodeRank);
  if (given && text(Opt::kNodeRank) == rank) return {};
  if (given && meets) {
    // What a batch script writes for $SLURM_NODEID is its own 0, on every node. But node 0 is where the nodes meet.
    if (text(Opt::kNodeRank) != "0") return {};
    auto endpoint = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
    const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty() && endpoint;
    auto own = facts_.is_this_machine(has_endpoint ? endpoint->host : text(Opt::kMasterAddr));
    if (own && *own) return {};
  }
  if (given)
    note(LogLevel::kWarning,
         fmt::format("--node-rank {} is ignored: this is node {} of the step, says Slurm", text(Opt::kNodeRank), rank));
  fill(Opt::kNodeRank, rank);
  return {};
}

// Of PBS: nobody says whether the other nodes run muster too.
Result<void> Planner::plan_task(bool meets) {
  if (!meets)
    return Error{ErrorKind::kUsage, fmt::format("this is {}, and its nodes have no rendezvous address", here_->what),
                 "start muster in the job's script instead, from where it reaches every node; or give --nnodes and "
                 "--master-addr"};
  if (!parsed_.given(Opt::kNodeRank) && here_->node_rank) fill(Opt::kNodeRank, std::to_string(*here_->node_rank));
  return plan_own_node();
}

Result<void> Planner::plan_small_step(const NodeRange& asked, bool forced) {
  MUSTER_TRY_VOID(refuse_bound_gpus());
  const bool meets = parsed_.given(Opt::kMasterAddr) || !text(Opt::kRdzvEndpoint).empty();
  if (asked.min > 1 && !meets && !forced)
    return about(Opt::kNnodes,
                 {ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked.min), has_nodes(*here_, 1)),
                  fmt::format("start it with srun -N {}, or in the batch script without srun", asked.min)});
  if (asked.max == 1 && here_->allocated > 1)
    note(LogLevel::kInfo, fmt::format("this step has 1 of the job's {} nodes: starting on {} alone; on all of them: in "
                                      "the batch script, or with {}",
                                      here_->allocated, here_->nodes[0].name, here_->adapter->run_on_all(*here_)));
  return plan_own_node();
}

Result<void> Planner::refuse_bound_gpus() {
  if (!here_->gpus_bound_to_tasks) return {};
  const size_t nodes = here_->nodes.size();
  const std::string gpus = facts_.getenv("SLURM_GPUS_ON_NODE").value_or("N");
  return Error{
      ErrorKind::kUsage,
      fmt::format("this step has {} tasks per node, and each sees GPUs of its own only; muster needs one task that "
                  "sees all",
                  here_->tasks_here),
      fmt::format("write srun -N {0} -n {0} --ntasks-per-node=1 --gpus-per-task={1} muster …, or start muster in "
                  "the batch script without srun",
                  nodes, gpus)};
}

// Where the nodes of a step meet by themselves: on its first, at a port that follows from the names.
Endpoint Planner::derived_endpoint() const {
  return {here_->nodes[0].name, launcher::derived_ports(derived_name())[0], false};
}

std::string Planner::derived_name() const {
  const std::string step = fmt::format("{}.{}", here_->job_id, here_->step_id);
  return parsed_.given(Opt::kRdzvId) ? fmt::format("{} {}", step, text(Opt::kRdzvId)) : step;
}

// --- Preset variables ------------------------------------------------------------------------------------------------

Result<void> Planner::plan_preset() {
  const bool given = parsed_.given(Opt::kNnodes) || parsed_.given(Opt::kMasterAddr) ||
                     parsed_.given(Opt::kRdzvEndpoint) || parsed_.given(Opt::kNodeRank);
  if (given || !ours_ || !here_->world_nodes || *here_->world_nodes == 1) return plan_own_node();
  fill(Opt::kNnodes, std::to_string(*here_->world_nodes));
  fill(Opt::kNodeRank, std::to_string(*here_->node_rank));
  fill(Opt::kMasterAddr, here_->master_addr);
  if (here_->master_port && !parsed_.given(Opt::kMasterPort))
    fill(Opt::kMasterPort, std::to_string(*here_->master_port));
  note(LogLevel::kInfo, fmt::format("{}; to run on this node alone: --mode local", here_->what));
  return plan_own_node();
}

}  // namespace muster::cli
