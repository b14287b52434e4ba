#include "muster/cluster/adapter.h"

#include <fmt/format.h>

#include "muster/cluster/pbs/detect.h"
#include "muster/cluster/pbs/time_left.h"
#include "muster/cluster/preset/detect.h"
#include "muster/cluster/slurm/detect.h"
#include "muster/cluster/slurm/node_address.h"
#include "muster/cluster/slurm/time_left.h"

namespace muster::cluster {
namespace {

// A launcher inside a worker starts a job of its own; the nodes belong to the one around it.
std::optional<Surroundings> inside_worker(const GetEnv& getenv) {
  auto id = getenv("TORCHELASTIC_RUN_ID"), rank = getenv("RANK"), local_rank = getenv("LOCAL_RANK");
  if (!id || !rank || !local_rank) return std::nullopt;
  Surroundings here;
  here.adapter = Adapter::kWorker;
  here.role = Role::kWorker;
  here.what = fmt::format("inside rank {} of another job", *rank);
  here.clues = {{"TORCHELASTIC_RUN_ID", *id, "set by muster or torchrun for their workers"},
                {"RANK", *rank, "which worker this is"},
                {"LOCAL_RANK", *local_rank, "and on this node"}};
  return here;
}

}  // namespace

std::string_view adapter_name(Adapter adapter) {
  switch (adapter) {
    case Adapter::kSlurm:
      return "slurm";
    case Adapter::kPbs:
      return "pbs";
    case Adapter::kPreset:
      return "preset";
    case Adapter::kWorker:
      break;
  }
  return "worker";
}

std::string_view scheduler_name(Adapter adapter) {
  return adapter == Adapter::kSlurm ? "Slurm" : adapter == Adapter::kPbs ? "PBS" : "the environment";
}

Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file) {
  if (auto worker = inside_worker(getenv)) return worker;
  MUSTER_TRY(std::optional<Surroundings> slurm, slurm::detect(getenv));
  if (slurm) return slurm;
  MUSTER_TRY(std::optional<Surroundings> pbs, pbs::detect(getenv, read_file));
  if (pbs) return pbs;
  return preset::detect(getenv);
}

std::string scheduler_job(const GetEnv& getenv) {
  const auto value = [&](const char* name) { return getenv(name).value_or(""); };
  const std::string array = value("SLURM_ARRAY_JOB_ID"), task = value("SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty()) return array + "_" + task;
  if (std::string slurm = value("SLURM_JOB_ID"); !slurm.empty()) return slurm;
  const std::string pbs = value("PBS_JOBID");  // with the server behind a dot
  return pbs.substr(0, pbs.find('.'));
}

Result<std::string> node_address(Adapter adapter, const std::string& node, Deadline deadline) {
  if (adapter == Adapter::kSlurm) return slurm::node_address(node, deadline);
  return Error{ErrorKind::kUsage, fmt::format("{} has no addresses of nodes", scheduler_name(adapter)), {}};
}

Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) {
  if (here.adapter == Adapter::kSlurm) return slurm::time_left(here, deadline);
  if (here.adapter == Adapter::kPbs) return pbs::time_left(here, deadline);
  return std::optional<Duration>();
}

}  // namespace muster::cluster
