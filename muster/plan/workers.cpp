#include <algorithm>

#include "muster/plan/known.h"

namespace muster::plan {
namespace {

using job::Countable;
using job::Request;

Result<int> count(const Request& request, const Position& position, const Known& known) {
  if (request.nproc->what == Countable::kCpu) return known.get<int>(Topic::kAffinityCpus);
  const process::GpuCount gpus = gpus_here(position, known);
  if (gpus.count > 0) return gpus.count;
  if (request.nproc->what == Countable::kAuto) return known.get<int>(Topic::kAffinityCpus);
  const std::string seen = gpus.source.empty() ? "this machine shows none" : gpus.source + " says so";
  return request.nproc.about({ErrorKind::kUsage, fmt::format("there is no GPU ({})", seen), "give a number, or auto"});
}

// Where the scheduler was asked for several processes per node, and there is no GPU to count workers by.
void note_fewer_workers(const cluster::Surroundings& here, Notes& notes) {
  const auto nodes = static_cast<int>(here.nodes.size());
  if (here.tasks_here > 1 && here.node_rank.value_or(0) == 0)
    notes.add(
        LogLevel::kInfo,
        fmt::format("the {0} tasks that srun started {1} become 1 worker{2}: muster starts one per GPU, and there "
                    "is none; for {0} workers{2} write muster run --nproc-per-node {0}",
                    here.tasks_here, nodes > 1 ? "on each node" : "on this node", nodes > 1 ? " per node" : ""));
  if (here.role == cluster::Role::kHead && here.slots > nodes)
    notes.add(LogLevel::kInfo,
              fmt::format("PBS gives {} slots on {} (lines of its nodefile), and they become {}: muster starts one per "
                          "GPU, and there is none; for more write muster run --nproc-per-node {}",
                          here.slots, nodes > 1 ? fmt::format("{} nodes", nodes) : "1 node",
                          nodes > 1 ? "1 worker per node" : "1 worker",
                          here.slots % nodes == 0 ? std::to_string(here.slots / nodes) : "N"));
}

}  // namespace

// Simulated nodes share those of the machine. (The launcher speaks of the first.)
process::GpuCount gpus_here(const Position& position, const Known& known) {
  const process::GpuCount all = known.gpus();
  const int nodes = position.simulated;
  return nodes > 1 ? process::share_of(all, position.agent ? position.agent->position % nodes : 0, nodes) : all;
}

Result<Workers> plan_workers(const Settled& settled, const Position& position, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  if (request.env_diff) return Workers{1};
  if (position.agent && position.agent->workers) return Workers{*position.agent->workers};
  if (request.ours() && !request.nproc.given()) {
    if (request.ranked && settled.here && known.gpus().count == 0) note_fewer_workers(*settled.here, notes);
    return Workers{position.elsewhere ? 1 : std::max(gpus_here(position, known).count, 1)};
  }
  if (request.nproc->what == Countable::kNumber) return Workers{request.nproc->number, true};
  if (position.elsewhere) return Workers{1};
  MUSTER_TRY(const int counted, count(request, position, known));
  return Workers{counted};
}

}  // namespace muster::plan
