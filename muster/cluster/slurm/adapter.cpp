#include "muster/cluster/adapters.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/cluster/slurm/detect.h"
#include "muster/cluster/slurm/node_address.h"
#include "muster/cluster/slurm/starter.h"
#include "muster/cluster/slurm/time_left.h"
#include "muster/process/proc.h"

namespace muster::cluster::slurm {
namespace {

// The first of the variables that is set and not empty; else empty.
std::string first_of(const GetEnv& getenv, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = getenv(name); value && !value->empty()) return *value;
  return {};
}

class SlurmAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "slurm"; }
  std::string_view title() const override { return "Slurm"; }

  Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& /*read_file*/) const override {
    return slurm::detect(getenv);
  }

  std::string job_number(const GetEnv& getenv) const override {
    const std::string array = first_of(getenv, {"SLURM_ARRAY_JOB_ID"}),
                      task = first_of(getenv, {"SLURM_ARRAY_TASK_ID"});
    return array.empty() || task.empty() ? first_of(getenv, {"SLURM_JOB_ID"}) : array + "_" + task;
  }

  // Each task of an array has a number of its own; a heterogeneous job has that of its first component.
  std::string job_name(const GetEnv& getenv) const override {
    const std::string id = first_of(getenv, {"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID", "SLURM_JOBID"});
    return id.empty() ? id : "Slurm job " + id;
  }

  // /slurm/uid_1000/job_41/step_0, /system.slice/slurmstepd.scope/job_41/step_0/user
  std::string job_of_cgroup(std::string_view path) const override {
    bool below = false;
    for (std::string_view part : split(path, '/')) {
      if (below && part.starts_with("job_") && parse_int(part.substr(4)))
        return fmt::format("Slurm job {}", part.substr(4));
      below = below || part.starts_with("slurm") || part.ends_with("_slurmstepd.scope");
    }
    return {};
  }

  // What slurmstepd has started: the batch script, or the shell of a step. Skips this process: after `exec muster run`
  // its environment may already be changed. A shell of salloc on a login node has no devices from Slurm.
  std::optional<Environment> first_environment() const override {
    for (auto process = process::read_proc_stat(::getppid()); process && process->parent > 0;
         process = process::read_proc_stat(process->parent)) {
      auto above = muster::read_file(fmt::format("/proc/{}/comm", process->parent));
      if (!above || trim(*above) != "slurmstepd") continue;
      Environment environment = process::first_environment(process->pid);
      return environment.has("SLURM_JOB_ID") ? std::optional(std::move(environment)) : std::nullopt;
    }
    return std::nullopt;
  }

  Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) const override {
    return slurm::time_left(here, deadline);
  }

  Result<std::string> node_address(const std::string& node, Deadline deadline) const override {
    return slurm::node_address(node, deadline);
  }

  std::string run_on_all(const Surroundings& here) const override {
    if (here.components > 1) return fmt::format("srun --het-group=0-{}", here.components - 1);
    return fmt::format("srun -N {}", here.allocated);
  }

  bool agents_ask() const override { return true; }
  bool nodes_share_munge() const override { return true; }

  Result<Tools> find_tools(const GetEnv& /*getenv*/, const FindProgram& find_program,
                           const ReadFile& /*read_file*/) const override {
    auto srun = find_program("srun");
    if (srun) return Tools{.paths = {{"srun", *srun}}, .words = "srun", .warning = {}};
    return Error{ErrorKind::kUsage, "there is no srun on PATH to start its nodes with",
                 "add Slurm's bin directory to PATH"};
  }

  std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const StartOptions& options,
                                        const Environment& environment,
                                        const Starter::Handlers& handlers) const override {
    return slurm::make_starter(loop, {options}, environment, handlers);
  }
};

}  // namespace

const Adapter& adapter() {
  static const SlurmAdapter only;
  return only;
}

}  // namespace muster::cluster::slurm
