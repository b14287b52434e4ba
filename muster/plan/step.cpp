#include "muster/launcher/door.h"
#include "muster/plan/known.h"

// A task of a step of srun, or of PBS: every node runs its own muster.
namespace muster::plan {
namespace {

using job::NodeRange;
using job::Request;

bool knows_meeting_point(const Request& request) { return request.master_addr.given() || !request.endpoint->empty(); }

Result<void> refuse_bound_gpus(const cluster::Surroundings& here, const Known& known) {
  if (!here.gpus_bound_to_tasks) return {};
  const std::string gpus = known.variable("SLURM_GPUS_ON_NODE").value_or("N");
  return Error{
      ErrorKind::kUsage,
      fmt::format("this step has {} tasks per node, and each sees GPUs of its own only; muster needs one task that "
                  "sees all",
                  here.tasks_here),
      fmt::format("write srun -N {0} -n {0} --ntasks-per-node=1 --gpus-per-task={1} muster …, or start muster in "
                  "the batch script without srun",
                  here.nodes.size(), gpus)};
}

Result<void> check_size(const Settled& settled, bool meets) {
  const auto& asked = settled.request.nnodes;
  const auto have = static_cast<int>(settled.here->nodes.size());
  const std::string has = has_nodes(*settled.here, settled.here->nodes.size());
  if (asked->min > have)
    return asked.about({ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked->min), has),
                        fmt::format("leave it out, or start it with srun -N {}; where nodes of several steps "
                                    "meet, add --mode symmetric",
                                    asked->min)});
  if (!meets && asked->min == asked->max && asked->max < have)
    return asked.about({ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked->max), has),
                        fmt::format("leave it out, or start it with srun -N {}", asked->max)});
  return {};
}

// Which node this is, where that was not said or cannot be.
void number_node(Settled& settled, bool meets, const Known& known, Notes& notes) {
  Request& request = settled.request;
  const int rank = *settled.here->node_rank;
  const bool given = request.node_rank.given();
  if (given && *request.node_rank == rank) return;
  if (given && meets) {
    // What a batch script writes for $SLURM_NODEID is its own 0, on every node. But node 0 is where the nodes meet.
    if (*request.node_rank != 0) return;
    auto endpoint = parse_endpoint(*request.endpoint);
    const bool has_endpoint = !request.endpoint->empty() && endpoint;
    auto own = known.is_this_machine(has_endpoint ? endpoint->host : *request.master_addr);
    if (own && *own) return;
  }
  if (given)
    notes.add(LogLevel::kWarning, fmt::format("--node-rank {} is ignored: this is node {} of the step, says Slurm",
                                              *request.node_rank, rank));
  request.node_rank.fill(rank);
}

// Of PBS: nobody says whether the other nodes run muster too.
Result<void> settle_task(Settled& settled, bool meets) {
  if (!meets)
    return Error{ErrorKind::kUsage,
                 fmt::format("this is {}, and its nodes have no rendezvous address", settled.here->what),
                 "start muster in the job's script instead, from where it reaches every node; or give --nnodes and "
                 "--master-addr"};
  if (!settled.request.node_rank.given() && settled.here->node_rank)
    settled.request.node_rank.fill(*settled.here->node_rank);
  return {};
}

}  // namespace

Result<void> settle_step(Settled& settled, const Known& known, Notes& notes) {
  Request& request = settled.request;
  const cluster::Surroundings& here = *settled.here;
  MUSTER_TRY_VOID(refuse_bound_gpus(here, known));
  bool meets = knows_meeting_point(request);
  if (!here.in_step) return settle_task(settled, meets);
  const auto have = static_cast<int>(here.nodes.size());
  if (!request.nnodes.given()) request.nnodes.fill({have, have});
  const NodeRange range = *request.nnodes;
  if (request.mode != job::Mode::kSymmetric) MUSTER_TRY_VOID(check_size(settled, meets));
  if (here.terminal)
    notes.add(LogLevel::kWarning,
              fmt::format("this is a terminal of a step on {}, each of which must run muster; if only this one does: "
                          "--mode fanout",
                          count_of(here.nodes.size())));
  // A range is c10d's, which numbers nodes itself.
  const bool numbered = range.min == range.max && *request.backend == job::Backend::kStatic;
  if (numbered && !meets && request.master_port.given()) {
    request.master_addr.fill(here.nodes[0].name);
    meets = true;
  }
  if (numbered && range.max == have) number_node(settled, meets, known, notes);
  settled.derived = !meets;
  return {};
}

Result<void> settle_small_step(const Settled& settled, const Known& known, Notes& notes) {
  const auto& asked = settled.request.nnodes;
  const cluster::Surroundings& here = *settled.here;
  MUSTER_TRY_VOID(refuse_bound_gpus(here, known));
  const bool forced = settled.request.mode == job::Mode::kSymmetric;
  if (asked->min > 1 && !knows_meeting_point(settled.request) && !forced)
    return asked.about({ErrorKind::kUsage, fmt::format("{}, and {}", were_asked(asked->min), has_nodes(here, 1)),
                        fmt::format("start it with srun -N {}, or in the batch script without srun", asked->min)});
  if (asked->max == 1 && here.allocated > 1)
    notes.add(LogLevel::kInfo, fmt::format("this step has 1 of the job's {} nodes: starting on {} alone; on all of "
                                           "them: in the batch script, or with {}",
                                           here.allocated, here.nodes[0].name, here.adapter->run_on_all(here)));
  return {};
}

std::string derived_name(const Settled& settled) {
  const std::string step = fmt::format("{}.{}", settled.here->job_id, settled.here->step_id);
  const auto& id = settled.request.rdzv_id;
  return id.given() ? fmt::format("{} {}", step, *id) : step;
}

}  // namespace muster::plan
