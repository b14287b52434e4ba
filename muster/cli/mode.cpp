#include "muster/cli/mode.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/values.h"

namespace muster::cli {
namespace {

using cluster::Adapter;
using cluster::Role;
using cluster::Surroundings;

ModeChoice in_allocation(const Surroundings& here, const std::string& host) {
  const bool special =
      std::any_of(here.clues.begin(), here.clues.end(), [](const auto& c) { return c.name == "SLURM_STEP_ID"; });
  const int row = special ? 2 : 5;
  const std::string place = special ? "a step that is no step of srun: as in a batch script" : "inside an allocation";
  if (here.nodes.size() == 1 && is_own_node(here, here.nodes[0].name, host))
    return {row, Mode::kLocal, place + ", which has this node alone",
            "starts one worker a GPU (one, if there is none) on this node"};
  const std::string way = here.adapter == Adapter::kPbs ? "pbs_tmrsh" : "srun";
  return {row, Mode::kFanOut, place + ": its nodes are started from here",
          fmt::format("starts one agent on {}{} with {}, and each starts one worker a GPU (one, if there is none)",
                      here.nodes.size() == 1 ? "" : "each of ", node_list(here.nodes), way)};
}

ModeChoice in_step(const Surroundings& here) {
  if (here.adapter != Adapter::kSlurm)
    return {
        6, Mode::kSymmetric, "a task of a job whose other nodes start their own",
        "needs --nnodes and --master-addr; without them start it in the job's script, from where it reaches all nodes"};
  std::string would = fmt::format(
      "makes this node number {} of {}, which meet on {}, and starts one worker a GPU (one, if "
      "there is none) here; every node of the step must run it",
      here.node_rank.value_or(0), here.nodes.size(), here.nodes[0].name);
  if (here.gpus_bound_to_tasks)
    would = "is refused: there are several tasks a node and each has GPUs of its own";
  else if (here.tasks_here > 1)
    would += here.local_task == 0 ? fmt::format("; the other {} tasks of this node wait for it", here.tasks_here - 1)
                                  : "; the first task of this node does that, this one waits for it";
  return {3, Mode::kSymmetric, "a step on several nodes: each runs its own muster", would};
}

ModeChoice in_small_step(const Surroundings& here) {
  std::string why = "a step on one node";
  std::string would = "starts one worker a GPU (one, if there is none) on this node alone";
  if (here.allocated > 1) {
    why += fmt::format(" of a job that has {}", here.allocated);
    would += fmt::format("; on all {}: in the batch script, or with {}", here.allocated, srun_on_all(here));
  }
  return {4, Mode::kLocal, why, would};
}

ModeChoice with_preset(const Surroundings& here) {
  if (!here.world_nodes)
    return {6, Mode::kSymmetric, "the options are preset", "takes PET_* variables for the options that they name"};
  if (*here.world_nodes == 1)
    return {7, Mode::kLocal, "one node is preset", "starts one worker a GPU (one, if there is none) on this node"};
  return {
      6, Mode::kSymmetric, "where nodes meet is preset",
      fmt::format("makes this node number {} of {}, which meet at {}, and starts one worker a GPU (one, if there is "
                  "none) here; every node must run it",
                  *here.node_rank, *here.world_nodes, here.master_addr)};
}

}  // namespace

std::string srun_on_all(const Surroundings& here) {
  if (here.components > 1) return fmt::format("srun --het-group=0-{}", here.components - 1);
  return fmt::format("srun -N {}", here.allocated);
}

std::string_view mode_name(Mode mode) {
  return mode == Mode::kFanOut ? "fanout" : mode == Mode::kSymmetric ? "symmetric" : "local";
}

std::string node_list(const std::vector<cluster::Host>& nodes) {
  constexpr size_t kMost = 16;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(nodes.size(), kMost); ++i) names.push_back(nodes[i].name);
  std::string text = join(names, ", ");
  if (nodes.size() > kMost) text += fmt::format(" and {} more", nodes.size() - kMost);
  return text;
}

bool surroundings_count(Verb verb, const Parsed& parsed) {
  for (Opt named : {Opt::kHosts, Opt::kHostfile, Opt::kLocalNodes})
    if (parsed.given(named)) return false;
  const std::string& mode = parsed.text(Opt::kMode);
  if (mode == "local") return false;
  auto asked = parse_nodes(parsed.text(Opt::kNnodes));
  const bool alone = (parsed.flag(Opt::kStandalone) && (!asked || asked->min == 1)) ||
                     (verb != Verb::kRun && (!asked || asked->max == 1));
  return !alone || mode == "fanout" || mode == "symmetric";
}

bool is_own_node(const Surroundings& here, const std::string& node, const std::string& host) {
  if (!here.node_name.empty()) return here.node_name == node;
  auto first_part = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return first_part(node) == first_part(host);
}

ModeChoice choose_mode(const std::optional<Surroundings>& here, const std::string& host) {
  if (here) switch (here->role) {
      case Role::kHead:
        return in_allocation(*here, host);
      case Role::kTask:
        return in_step(*here);
      case Role::kOneNode:
        return in_small_step(*here);
      case Role::kPreset:
        return with_preset(*here);
      case Role::kWorker:
        break;
    }
  return {7, Mode::kLocal, here ? "a worker of another job" : "no scheduler, and nobody says where nodes meet",
          "starts one worker a GPU (one, if there is none) on this machine alone; others are named with --hosts"};
}

}  // namespace muster::cli
