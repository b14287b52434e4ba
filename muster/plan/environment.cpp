#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cluster/adapters.h"
#include "muster/environment/assignments.h"
#include "muster/job/worker_env.h"
#include "muster/plan/known.h"
#include "muster/plan/node_environment.h"
#include "muster/process/cpus.h"

// What the workers of this node find: --modules, --conda, --venv, --prologue, --env, --env-file.
namespace muster::plan {
namespace {

using job::Request;

constexpr Duration kRecordMargin = std::chrono::seconds(5);  // for what else an agent does at its end
constexpr const char* kThreads = "OMP_NUM_THREADS";

// Why a variable that is computed for each worker cannot be given.
std::string why_computed(const std::string& name) {
  for (const job::Variable& variable : job::declared_variables())
    if (variable.name == name && variable.set_by == job::kSetByMuster)
      return fmt::format("muster sets {} for each worker ({})", name, variable.meaning);
  return fmt::format("muster sets {} for each worker", name);
}

Error about_env_file(const Error& error) { return {error.kind, "--env-file: " + error.message, error.hint}; }

Result<environment::Assignments> read_env_file(const std::string& file, bool ranked, const Known& known, Notes& notes) {
  auto content = known.file(file);
  if (!content) return about_env_file({ErrorKind::kUsage, content.error().message, "give a file you may read"});
  auto assignments = environment::parse_env_file(*content);
  if (!assignments) {
    Error error = assignments.error();
    error.message = fmt::format("{}, {}", file, error.message);
    return about_env_file(error);
  }
  // A file may be written for other tools as well.
  std::erase_if(*assignments, [&](const environment::Assignment& assignment) {
    if (!job::is_computed(assignment.first, ranked)) return false;
    notes.add(LogLevel::kWarning,
              fmt::format("--env-file: {}: {}; it is left out", file, why_computed(assignment.first)));
    return true;
  });
  return assignments;
}

Result<Environment> given_variables(const Request& request, const Known& known, Notes& notes) {
  environment::Assignments all;
  for (const std::string& file : request.env_files) {
    MUSTER_TRY(environment::Assignments read, read_env_file(file, request.ranked, known, notes));
    all.insert(all.end(), read.begin(), read.end());
  }
  for (const environment::Assignment& assignment : request.env) {
    if (job::is_computed(assignment.first, request.ranked))
      return Error{ErrorKind::kUsage, "--env: " + why_computed(assignment.first), "leave it out"};
    all.push_back(assignment);
  }
  const Environment& own = known.plain().environment;
  for (const auto& [name, value] : all)
    if (!value && !own.has(name))
      notes.add(LogLevel::kWarning, fmt::format("{} is not set here, so no worker gets it", name));
  return environment::fill_in(all, [&](const std::string& name) { return own.get(name); });
}

void hide_other_gpus(const process::GpuCount& mine, int workers, Environment& environment) {
  if (mine.visible_variable.empty() || workers > mine.count) return;  // more were asked for than its share has
  environment.erase(mine.visible_variable);
  environment.add(mine.visible_variable, join(mine.ids, ","));
}

// PBS sets OMP_NUM_THREADS for one process that has all CPUs of its chunk: that is nobody's wish for each of several.
std::optional<int> cpus_of_pbs(const Environment& environment) {
  const std::string* threads = environment.find(kThreads);
  const std::string* cpus = environment.find("NCPUS");
  if (threads == nullptr || cpus == nullptr || *cpus != *threads || !environment.has("PBS_ENVIRONMENT")) return {};
  const auto number = parse_int(*threads);
  if (!number || *number < 1 || *number > INT32_MAX) return {};
  return static_cast<int>(*number);
}

}  // namespace

// Devices that the user has chosen for this command hold on every node; a scheduler sets its own there.
Result<Environment> chosen_devices(const launcher::FanOut& spec, const Known& known, Notes& notes) {
  Environment chosen;
  if (spec.start.job_id.empty()) return chosen;
  const Environment& own = known.plain().environment;
  if (auto first = known.get<std::optional<Environment>>(Topic::kFirstEnvironment, std::string(spec.adapter->name()))) {
    chosen = devices_set_since(own, *first);
  } else if (spec.adapter == &cluster::slurm::adapter()) {
    DevicesInSlurm found = devices_beside_slurm(own);
    chosen = std::move(found.chosen);
    for (const auto& [name, value] : found.guessed)
      notes.add(LogLevel::kInfo,
                fmt::format("{0}={1} is taken for Slurm's: every node uses what Slurm gives it; to choose "
                            "these devices on every node: --env {0}={1}",
                            name, value));
  }
  for (const auto& [name, value] : chosen) {
    if ((value.starts_with("GPU-") || value.starts_with("MIG-")) && spec.hosts.size() > 1)
      return Error{ErrorKind::kUsage,
                   fmt::format("{}={} names devices of one node, and the job has {}", name, value, spec.hosts.size()),
                   "use numbers, or unset it"};
    notes.add(LogLevel::kInfo,
              fmt::format("{}={} is not {}'s: every node uses these devices", name, value, spec.adapter->title()));
  }
  return chosen;
}

// On the node of an agent: devices that were chosen elsewhere, and that the scheduler has not given us here.
Result<void> check_devices(const environment::Setup& setup, const std::string& host, const Known& known) {
  const Environment& environment = known.plain().environment;
  for (const auto& [name, value] : setup.set) {
    const bool chooses = name == "CUDA_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES" || name == "ZE_AFFINITY_MASK";
    const auto own = environment.get(name);
    if (!chooses || !own || own == value || !environment.has("SLURM_STEP_GPUS")) continue;
    const std::vector<std::string> have = process::parse_visible_devices(*own);
    for (const std::string& device : process::parse_visible_devices(value))
      if (parse_int(device) && std::find(have.begin(), have.end(), device) == have.end())
        return Error{ErrorKind::kUsage,
                     fmt::format("{}={}: the job has no device {} on {}, where Slurm has set {}", name, value, device,
                                 host, *own),
                     "name devices that the job has on every node, or unset it"};
  }
  return {};
}

Result<environment::Setup> read_set_up(const Request& request, const Known& known, Notes& notes) {
  environment::Setup setup;
  setup.modules = request.modules;
  setup.conda = *request.conda;
  setup.venv = *request.venv;
  setup.prologues = request.prologues;
  MUSTER_TRY(setup.set, given_variables(request, known, notes));
  return setup;
}

// One node keeps it, the one whose workers come first. Whether it can is known before anything is started. Returns the
// directory if it is this process.
Result<std::string> plan_record(const Request& request, const Position& position, Nodes& nodes, const Known& known) {
  if (request.record->empty() || request.env_diff) return std::string();
  if (auto* spec = std::get_if<launcher::FanOut>(&nodes.start)) {
    spec->agents_patience = kRecordPatience + kRecordMargin;
    if (position.elsewhere) return std::string();
  }
  if (position.agent != nullptr && position.agent->position != 0) return std::string();
  if (const auto* spec = nodes.symmetric()) {
    const auto& rank = nodes.membership->rank;
    if (rank ? *rank != 0 : spec->hosts == launcher::Symmetric::Hosts::kNo) return std::string();
  }
  if (!request.dry_run)
    if (auto possible = known.find<bool>(Topic::kCanRecord, *request.record); !possible)
      return request.record.about(possible.error());
  return position.from_here ? std::string() : *request.record;
}

Environment worker_environment(const Request& request, const Position& position, int workers, const Known& known,
                               Notes& notes) {
  const Environment& before = known.plain().environment;
  Environment environment = without_token(known.environment());
  // What --env or a prologue has just set is as it was wanted.
  for (const auto& [name, value] : request.worker_variables) {
    const std::string* now = known.environment().find(name);
    const std::string* was = before.find(name);
    if (now != nullptr && (was == nullptr || *was != *now)) continue;
    environment.erase(name);
    environment.add(name, value);
  }
  if (position.nodes_here() > 1) hide_other_gpus(gpus_here(position, known), workers, environment);
  const std::optional<int> cpus = request.ours() ? cpus_of_pbs(environment) : std::nullopt;
  if (environment.has(kThreads) && !cpus) return environment;
  if (request.ours() && !position.from_here) {  // else each agent sets it for its own workers
    const int cores = std::min(known.get<int>(Topic::kUsableCores), cpus.value_or(INT32_MAX));
    environment.erase(kThreads);
    environment.add(kThreads, std::to_string(process::threads_per_worker(cores, workers * position.nodes_here())));
  } else if (!request.ours() && workers > 1) {
    if (!position.from_here) environment.add(kThreads, "1");
    notes.add(LogLevel::kWarning,
              "\n*****************************************\n"
              "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system "
              "being overloaded, please further tune the variable for optimal performance in your application as "
              "needed. \n"
              "*****************************************");
  }
  return environment;
}

}  // namespace muster::plan
