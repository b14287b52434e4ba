#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/job_record.h"
#include "muster/cli/node_environment.h"
#include "muster/cluster/adapters.h"
#include "muster/environment/assignments.h"
#include "muster/job/worker_env.h"

// What the workers of this node find: --modules, --conda, --venv, --prologue, --env, --env-file.
namespace muster::cli {
namespace {

constexpr Duration kRecordMargin = std::chrono::seconds(5);  // for what else an agent does at its end

// Why a variable that is computed for each worker cannot be given.
std::string why_computed(const std::string& name) {
  for (const job::Variable& variable : job::declared_variables())
    if (variable.name == name && variable.set_by == job::kSetByMuster)
      return fmt::format("muster sets {} for each worker ({})", name, variable.meaning);
  return fmt::format("muster sets {} for each worker", name);
}

}  // namespace

// Devices that the user has chosen for this command hold on every node; a scheduler sets its own there.
Result<void> Planner::forward_devices(const launcher::FanOut& spec) {
  if (spec.start.job_id.empty()) return {};
  Environment chosen;
  if (auto first = facts_.job_environment(*spec.adapter)) {
    chosen = devices_set_since(facts_.environment, *first);
  } else if (spec.adapter == &cluster::slurm::adapter()) {
    DevicesInSlurm found = devices_beside_slurm(facts_.environment);
    chosen = std::move(found.chosen);
    for (const auto& [name, value] : found.guessed)
      note(LogLevel::kInfo, fmt::format("{0}={1} is taken for Slurm's: every node uses what Slurm gives it; to choose "
                                        "these devices on every node: --env {0}={1}",
                                        name, value));
  }
  for (const auto& [name, value] : chosen) {
    if ((value.starts_with("GPU-") || value.starts_with("MIG-")) && spec.hosts.size() > 1)
      return Error{ErrorKind::kUsage,
                   fmt::format("{}={} names devices of one node, and the job has {}", name, value, spec.hosts.size()),
                   "use numbers, or unset it"};
    note(LogLevel::kInfo,
         fmt::format("{}={} is not {}'s: every node uses these devices", name, value, spec.adapter->title()));
    plan_.forwarded.push_back(fmt::format("--env={}={}", name, value));
  }
  return {};
}

// On a node: devices that were chosen elsewhere, and that the scheduler has not given us here.
Result<void> Planner::check_devices(const environment::Setup& setup) const {
  for (const auto& [name, value] : setup.set) {
    const bool chooses = name == "CUDA_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES" || name == "ZE_AFFINITY_MASK";
    const auto own = facts_.getenv(name);
    if (!assignment_ || !chooses || !own || own == value || !facts_.getenv("SLURM_STEP_GPUS")) continue;
    const std::vector<std::string> have = process::parse_visible_devices(*own);
    for (const std::string& device : process::parse_visible_devices(value))
      if (parse_int(device) && std::find(have.begin(), have.end(), device) == have.end())
        return Error{ErrorKind::kUsage,
                     fmt::format("{}={}: the job has no device {} on {}, where Slurm has set {}", name, value, device,
                                 job_.host, *own),
                     "name devices that the job has on every node, or unset it"};
  }
  return {};
}

// After the set-up, which may make it. Each node says it of its own; simulated ones share the launcher's.
void Planner::check_temporary_directory() {
  const std::string given = facts_.getenv("TMPDIR").value_or("");
  if (given.empty() || facts_.is_directory(given) || (assignment_ && parsed_.given(Opt::kLocalNodes))) return;
  plan_.notes.push_back({LogLevel::kWarning, no_temporary_directory(given)});
}

// A launcher only sees whether it makes sense: the nodes that have workers do it.
Result<void> Planner::plan_set_up() {
  MUSTER_TRY(environment::Setup setup, read_set_up());
  for (const auto& [name, value] : setup.set) given_variables_.insert(name);
  if (fan_out() != nullptr) {
    for (const auto& [name, value] : setup.set) plan_.forwarded.push_back(fmt::format("--env={}={}", name, value));
    return {};
  }
  if (setup.empty()) return {};
  MUSTER_TRY_VOID(check_devices(setup));
  MUSTER_TRY(const Duration time, seconds(Opt::kJoinTimeout, 1));
  MUSTER_TRY(environment_, facts_.set_up(setup, environment_, {job_.host, time, job_.log_threshold}));
  return {};
}

Result<environment::Setup> Planner::read_set_up() {
  environment::Setup setup;
  for (const std::string& names : parsed_.list(Opt::kModules)) {
    for (std::string_view name : split(names, ',')) {
      if (trim(name).empty())
        return about(Opt::kModules, {ErrorKind::kUsage, fmt::format("'{}' has an empty name", names), "write a,b"});
      setup.modules.emplace_back(trim(name));
    }
  }
  for (Opt id : {Opt::kConda, Opt::kVenv})
    if (parsed_.given(id) && text(id).empty()) return about(id, {ErrorKind::kUsage, "it is empty", "leave it out"});
  setup.conda = text(Opt::kConda);
  setup.venv = text(Opt::kVenv);
  setup.prologues = parsed_.list(Opt::kPrologue);
  for (const std::string& prologue : setup.prologues)
    if (trim(prologue).empty())
      return about(Opt::kPrologue, {ErrorKind::kUsage, "there is nothing in it", "leave it out"});
  MUSTER_TRY(setup.set, given_variables());
  return setup;
}

// Files and variables of the place where the command was typed: agents are told what they said (plan_.forwarded).
Result<Environment> Planner::given_variables() {
  environment::Assignments all;
  for (const std::string& file : assignment_ ? std::vector<std::string>() : parsed_.list(Opt::kEnvFile)) {
    auto content = facts_.read_file(file);
    if (!content) return about(Opt::kEnvFile, {ErrorKind::kUsage, content.error().message, "give a file you may read"});
    auto assignments = environment::parse_env_file(*content);
    if (!assignments) {
      Error error = assignments.error();
      error.message = fmt::format("{}, {}", file, error.message);
      return about(Opt::kEnvFile, error);
    }
    // A file may be written for other tools as well.
    for (environment::Assignment& assignment : *assignments) {
      if (job::is_computed(assignment.first, wishes_.ranked)) {
        note(LogLevel::kWarning,
             fmt::format("--env-file: {}: {}; it is left out", file, why_computed(assignment.first)));
      } else {
        all.push_back(std::move(assignment));
      }
    }
  }
  for (const std::string& word : parsed_.list(Opt::kEnv)) {
    auto assignment = environment::parse_assignment(word);
    if (!assignment) return about(Opt::kEnv, assignment.error());
    if (job::is_computed(assignment->first, wishes_.ranked))
      return about(Opt::kEnv, {ErrorKind::kUsage, why_computed(assignment->first), "leave it out"});
    if (assignment->second || !assignment_) all.push_back(*std::move(assignment));
  }
  for (const auto& [name, value] : all)
    if (!value && !facts_.getenv(name))
      note(LogLevel::kWarning, fmt::format("{} is not set here, so no worker gets it", name));
  return environment::fill_in(all, facts_.getenv);
}

Result<void> Planner::plan_env_diff() {
  plan_.env_diff = parsed_.flag(Opt::kEnvDiff);
  if (!plan_.env_diff || !std::holds_alternative<launcher::Symmetric>(plan_.nodes)) return {};
  return Error{ErrorKind::kUsage, "--env-diff compares nodes from one place, and here each runs its own muster",
               "run it once, with --hosts"};
}

// One node keeps it, the one whose workers come first. Whether it can is known before anything is started.
Result<void> Planner::plan_record() {
  if (text(Opt::kRecord).empty() || plan_.env_diff) return {};
  if (auto* nodes = fan_out()) {
    nodes->agents_patience = kRecordPatience + kRecordMargin;
    if (!nodes->adapter->is_local()) return {};
  }
  if (assignment_ && assignment_->position != 0) return {};
  if (auto* symmetric = std::get_if<launcher::Symmetric>(&plan_.nodes)) {
    const bool first =
        job_.membership->rank ? *job_.membership->rank == 0 : symmetric->hosts != launcher::Symmetric::Hosts::kNo;
    if (!first) return {};
  }
  auto possible = parsed_.flag(Opt::kDryRun) ? Result<void>() : facts_.check_record(text(Opt::kRecord));
  if (!possible) return about(Opt::kRecord, possible.error());
  if (fan_out() == nullptr) plan_.record = text(Opt::kRecord);
  return {};
}

}  // namespace muster::cli
