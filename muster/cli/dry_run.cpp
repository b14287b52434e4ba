#include "muster/cli/dry_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/strings.h"
#include "muster/container/commands.h"
#include "muster/job/worker_cpus.h"
#include "muster/job/worker_env.h"
#include "muster/net/address.h"
#include "muster/process/binding.h"
#include "muster/process/cpus.h"
#include "muster/process/gpus.h"

namespace muster::cli {
namespace {

struct WorkerPlan {
  int rank;
  std::vector<int> cpus;
  std::string gpu;
  std::vector<std::string> argv;
  Environment added;  // beyond the launcher's own
};

}  // namespace

Environment added_variables(const plan::JobPlan& plan, const Environment& environment) {
  Environment added;
  for (const auto& [name, value] : environment) {
    const bool later = name == "TORCHELASTIC_ERROR_FILE" || (name == "MASTER_PORT" && plan.job().master_port == 0);
    if (plan.given_environment.get(name) != value) added.add(name, later ? kChosenAtStart : value);
  }
  return added;
}

namespace {

// Which GPU a worker finds at its local rank; empty: there is none for it.
std::string gpu_of(const process::GpuCount& gpus, size_t local_rank) {
  return local_rank < gpus.ids.size() ? gpus.ids[local_rank] : "";
}

// What is executed: for a worker in a container the runtime, which starts it.
std::vector<std::string> command_line(const job::JobSpec& job, int rank, const Environment& environment) {
  std::vector<std::string> argv = job::worker_argv(job.command, rank);
  if (!job.container) return argv;
  argv[0] = job.command.program;
  return container::worker_command(*job.container,
                                   {.argv = std::move(argv), .environment = environment, .from_node = job.environment})
      .argv;
}

Result<std::vector<WorkerPlan>> plan_workers(const plan::JobPlan& plan, const process::GpuCount& gpus) {
  const job::JobSpec& job = plan.job();
  MUSTER_TRY(std::vector<std::vector<int>> cpus, job::cpus_of_workers(job));
  if (cpus.empty()) cpus.assign(static_cast<size_t>(job.workers), process::affinity_cpus());
  const job::Round round{.world_size = job.workers,
                         .role_world_size = job.workers,
                         .master_port = job.master_port,
                         .master_addr = job.master_addr,
                         .job = std::string(kChosenAtStart)};
  std::vector<WorkerPlan> workers;
  for (int rank = 0; rank < job.workers; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const job::Placement placement = job::place_worker(round, rank, job.workers);
    const Environment environment = job::worker_environment(job, round, placement);
    workers.push_back({rank, cpus[index], gpu_of(gpus, index), command_line(job, rank, environment),
                       added_variables(plan, environment)});
  }
  return workers;
}

std::string as_json(const plan::JobPlan& plan, const process::GpuCount& gpus, const std::vector<WorkerPlan>& workers) {
  nlohmann::ordered_json json;
  json["workers"] = plan.job().workers;
  json["host"] = net::hostname();
  json["program"] = plan.job().command.program;
  json["gpu_source"] = gpus.source;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const WorkerPlan& worker : workers) {
    nlohmann::ordered_json entry;
    entry["rank"] = entry["local_rank"] = worker.rank;
    entry["cpus"] = worker.cpus;
    entry["bound"] = plan.job().binding.has_value();
    entry["gpu"] = worker.gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(worker.gpu);
    entry["command"] = worker.argv;
    entry["environment"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : worker.added) entry["environment"][name] = value;
    json["ranks"].push_back(std::move(entry));
  }
  // Arguments may be any bytes; JSON may not.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Of several workers: the variables that all of them have with the same value.
Environment common_variables(const std::vector<WorkerPlan>& workers) {
  Environment common;
  if (workers.size() < 2) return common;
  auto has = [](const auto& variable) {
    return [&](const WorkerPlan& worker) { return std::ranges::find(worker.added, variable) != worker.added.end(); };
  };
  for (const auto& variable : workers[0].added)
    if (std::ranges::all_of(workers, has(variable))) common.add(variable);
  return common;
}

std::string variable_lines(const Environment& environment, const Environment& but) {
  std::string text;
  for (const auto& variable : environment)
    if (std::ranges::find(but, variable) == but.end())
      text += fmt::format("    {}={}\n", variable.first, variable.second);
  return text;
}

std::string as_text(const plan::JobPlan& plan, const process::GpuCount& gpus, const std::vector<WorkerPlan>& workers) {
  std::string text = fmt::format("{} worker{} on {}, by {}\n", workers.size(), workers.size() == 1 ? "" : "s",
                                 net::hostname(), plan.job().command.program);
  if (!gpus.source.empty()) text += fmt::format("GPUs: {} ({})\n", gpus.count, gpus.source);
  const Environment common = common_variables(workers);
  if (!common.empty()) text += "\nevery rank\n  environment\n" + variable_lines(common, {});
  for (const WorkerPlan& worker : workers) {
    text += fmt::format("\nrank {}\n  cores    {}{}\n", worker.rank, process::cpu_ranges(worker.cpus),
                        plan.job().binding ? " (bound)" : "");
    if (!worker.gpu.empty()) text += fmt::format("  GPU      {}\n", worker.gpu);
    text += fmt::format("  command  {}\n  environment\n", shell_quote(worker.argv));
    text += variable_lines(worker.added, common);
  }
  return text;
}

}  // namespace

Result<std::string> dry_run(const plan::JobPlan& plan, bool json) {
  const process::GpuCount gpus = process::count_gpus(environment_variable);
  MUSTER_TRY(std::vector<WorkerPlan> workers, plan_workers(plan, gpus));
  return json ? as_json(plan, gpus, workers) : as_text(plan, gpus, workers);
}

}  // namespace muster::cli
