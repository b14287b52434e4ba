#include "muster/plan/mode.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::plan {
namespace {

using cluster::Role;
using cluster::Surroundings;

// A step that is no step of srun.
bool is_special(const Surroundings& here) {
  return std::any_of(here.clues.begin(), here.clues.end(), [](const auto& c) { return c.name == "SLURM_STEP_ID"; });
}

int row_of(const std::optional<Surroundings>& here, std::optional<Mode> mode) {
  if (here) switch (here->role) {
      case Role::kHead:
        return is_special(*here) ? 2 : 5;
      case Role::kTask:
        return here->in_step ? 3 : 6;
      case Role::kOneNode:
        return 4;
      case Role::kPreset:
        return mode == Mode::kLocal ? 7 : 6;
      case Role::kWorker:
        break;
    }
  return mode == Mode::kSymmetric ? 6 : 7;
}

std::string why_in_allocation(const Surroundings& here, std::optional<Mode> mode) {
  const std::string place =
      is_special(here) ? "a step that is not a step of srun: as in a batch script" : "inside an allocation";
  if (mode != Mode::kLocal) return place + ": its nodes are started from here";
  return place + (here.nodes.size() == 1 ? ", which has this node alone" : ", of which this node alone was asked for");
}

std::string why(const std::optional<Surroundings>& here, std::optional<Mode> mode) {
  if (here) switch (here->role) {
      case Role::kHead:
        return why_in_allocation(*here, mode);
      case Role::kTask:
        if (!here->in_step) return "a task of a job whose other nodes start their own";
        return mode == Mode::kLocal ? "a step on several nodes, of which this node alone was asked for"
                                    : "a step on several nodes: each runs its own muster";
      case Role::kOneNode:
        return here->allocated > 1 ? fmt::format("a step on one node of a job that has {}", here->allocated)
                                   : "a step on one node";
      case Role::kPreset:
        if (mode == Mode::kLocal) return "one node is preset";
        return here->world_nodes ? "where nodes meet is preset" : "the options are preset";
      case Role::kWorker:
        return "a worker of another job";
    }
  return mode == Mode::kSymmetric ? "the options are preset" : "no scheduler, and no rendezvous address";
}

std::string workers_of(const JobPlan& plan, const std::string& asked) {
  if (asked.empty()) return "one worker per GPU (one, if there is none)";
  if (!plan.workers_given) return fmt::format("as many workers as PET_NPROC_PER_NODE={} comes to", asked);
  return fmt::format("{} worker{}", plan.job().workers, plan.job().workers == 1 ? "" : "s");
}

std::string would_alone(const std::optional<Surroundings>& here, const std::string& workers) {
  if (!here || here->role == Role::kWorker)
    return fmt::format("starts {} on this machine alone; others are named with --hosts", workers);
  if (here->role != Role::kOneNode) return fmt::format("starts {} on this node", workers);
  std::string would = fmt::format("starts {} on this node alone", workers);
  if (here->allocated > 1)
    would +=
        fmt::format("; on all {}: in the batch script, or with {}", here->allocated, here->adapter->run_on_all(*here));
  return would;
}

std::string would_fan_out(const launcher::FanOut& spec, const std::string& workers) {
  return fmt::format("starts one agent on {}{} with {}, and each starts {}", spec.hosts.size() == 1 ? "" : "each of ",
                     node_list(spec.hosts), spec.start.tools.words, workers);
}

std::string would_meet(const std::optional<Surroundings>& here, const launcher::Symmetric& spec,
                       const std::string& workers) {
  const auto& rank = spec.job.membership->rank;
  const auto& [least, most] = std::pair(spec.membership.min_nodes, spec.membership.max_nodes);
  // Of several ports the first that is free counts.
  return fmt::format(
      "makes this node {} of {}, which meet {}, and starts {} here; every node{} must run it",
      rank ? fmt::format("number {}", *rank) : "one",
      least == most ? std::to_string(most) : fmt::format("{} to {}", least, most),
      spec.candidates.size() > 1 ? "on " + spec.host : fmt::format("at {}, port {}", spec.host, spec.port), workers,
      here && here->role == Role::kTask ? " of the step" : "");
}

// Of several tasks on a node one does it all.
std::string mates_of(const std::optional<Surroundings>& here) {
  if (!here || here->tasks_here < 2) return "";
  return here->local_task == 0 ? fmt::format("; the other {} tasks of this node wait for it", here->tasks_here - 1)
                               : "; the first task of this node does that, this one waits for it";
}

std::string would(const std::optional<Surroundings>& here, const Result<JobPlan>& plan, const std::string& asked) {
  if (!plan) return "is refused: " + plan.error().text();
  const std::string workers = workers_of(*plan, asked);
  if (const auto* spec = plan->fan_out()) return would_fan_out(*spec, workers);
  if (const auto* spec = plan->symmetric()) return would_meet(here, *spec, workers) + mates_of(here);
  return would_alone(here, workers) + mates_of(here);
}

std::optional<Mode> mode_of(const Result<JobPlan>& plan) {
  if (!plan) return std::nullopt;
  if (plan->fan_out() != nullptr) return Mode::kFanOut;
  return plan->symmetric() != nullptr ? Mode::kSymmetric : Mode::kLocal;
}

}  // namespace

std::string_view mode_name(std::optional<Mode> mode) {
  if (!mode) return "none";
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

bool is_own_node(const Surroundings& here, const std::string& node, const std::string& host) {
  if (!here.node_name.empty()) return here.node_name == node;
  auto first_part = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return first_part(node) == first_part(host);
}

ModeChoice describe_mode(const std::optional<Surroundings>& here, const Result<JobPlan>& plan,
                         const std::string& asked) {
  const std::optional<Mode> mode = mode_of(plan);
  return {row_of(here, mode), mode, why(here, mode), would(here, plan, asked)};
}

}  // namespace muster::plan
