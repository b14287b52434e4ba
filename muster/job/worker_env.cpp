#include "muster/job/worker_env.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/job/python_template.h"
#include "muster/process/site_packages.h"

namespace muster::job {
namespace {

// Collects what is set for one worker and lays it over the launcher's environment in one pass.
class Overlay {
 public:
  void set(std::string_view name, std::string value) { entries_.emplace_back(name, std::move(value)); }
  void set(std::string_view name, int value) { set(name, std::to_string(value)); }

  process::Environment over(const process::Environment& base) && {
    process::Environment merged;
    merged.reserve(base.size() + entries_.size());
    for (const auto& entry : base)
      if (find_variable(entries_, entry.first) == nullptr) merged.push_back(entry);
    std::move(entries_.begin(), entries_.end(), std::back_inserter(merged));
    return merged;
  }

 private:
  process::Environment entries_;
};

// The variable was renamed in torch 2.2; a version that nobody knows is taken for a current one.
std::string_view nccl_error_handling_name(std::string_view torch_version) {
  auto version = process::parse_torch_version(torch_version);
  bool old = version && (version->major < 2 || (version->major == 2 && version->minor <= 1));
  return old ? "NCCL_ASYNC_ERROR_HANDLING" : "TORCH_NCCL_ASYNC_ERROR_HANDLING";
}

void set_ranks(Overlay& overlay, const JobSpec& job, const Placement& placement) {
  overlay.set("RANK", placement.rank);
  overlay.set("LOCAL_RANK", job.virtual_local_rank ? 0 : placement.local_rank);
  overlay.set("GROUP_RANK", placement.group_rank);
  overlay.set("GROUP_WORLD_SIZE", placement.group_world_size);
  overlay.set("LOCAL_WORLD_SIZE", placement.local_world_size);
  overlay.set("WORLD_SIZE", placement.world_size);
  overlay.set("ROLE_NAME", job.role);
  overlay.set("ROLE_RANK", placement.role_rank);
  overlay.set("ROLE_WORLD_SIZE", placement.role_world_size);
}

void set_torchelastic(Overlay& overlay, const JobSpec& job, const RoundInfo& round) {
  overlay.set("MASTER_ADDR", round.master_addr);
  overlay.set("MASTER_PORT", round.master_port);
  overlay.set("TORCHELASTIC_RESTART_COUNT", round.restart_count);
  overlay.set("TORCHELASTIC_MAX_RESTARTS", job.max_restarts);
  overlay.set("TORCHELASTIC_RUN_ID", job.run_id);
  overlay.set("TORCHELASTIC_USE_AGENT_STORE", job.store_host == StoreHost::kAgent ? "True" : "False");
  overlay.set("TORCHELASTIC_ERROR_FILE", round.error_file);
  if (!job.signals_text.empty()) overlay.set("TORCHELASTIC_SIGNALS_TO_HANDLE", job.signals_text);
  if (!round.timer_file.empty()) overlay.set("TORCHELASTIC_TIMER_FILE", round.timer_file);
  std::string_view nccl = nccl_error_handling_name(job.torch_version);
  if (find_variable(job.environment, nccl) == nullptr) overlay.set(nccl, "1");
}

// The worker sees one device and calls it number 0.
void set_virtual_device(Overlay& overlay, const JobSpec& job, int local_rank) {
  const std::string* given = find_variable(job.environment, "CUDA_VISIBLE_DEVICES");
  if (given == nullptr) {
    overlay.set("CUDA_VISIBLE_DEVICES", local_rank);
    return;
  }
  std::vector<std::string_view> devices = split(*given, ',');
  auto index = static_cast<size_t>(local_rank);
  overlay.set("CUDA_VISIBLE_DEVICES", std::string(index < devices.size() ? trim(devices[index]) : ""));
}

std::string worker_id(const RoundInfo& round, int rank) {
  return fmt::format("{}.{}.{}", round.job, round.round, rank);
}

// The job of the scheduler that an environment belongs to; empty: none.
std::string scheduler_job(const process::Environment& environment) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID"})
    if (const std::string* job = find_variable(environment, name)) return *job;
  return {};
}

std::string depth_of_workers(const process::Environment& environment) {
  const std::string job = scheduler_job(environment);
  return fmt::format("{}{}{}", nesting_depth(environment) + 1, job.empty() ? "" : "@", job);
}

void set_muster(Overlay& overlay, const JobSpec& job, const RoundInfo& round, const Placement& placement) {
  overlay.set("MUSTER_VERSION", std::string(version()));
  overlay.set("MUSTER_JOB", round.job);
  overlay.set("MUSTER_WORKER", worker_id(round, placement.rank));
  overlay.set("MUSTER_ROUND", round.round);
  overlay.set("MUSTER_HOST", round.host);
  overlay.set("MUSTER_DEPTH", depth_of_workers(job.environment));
  if (find_variable(job.environment, "MUSTER_ATTEMPT") == nullptr) overlay.set("MUSTER_ATTEMPT", 0);
}

}  // namespace

Placement place_worker(const RoundPlan& plan, int local_rank, int local_workers) {
  return {.rank = plan.first_rank + local_rank,
          .local_rank = local_rank,
          .world_size = plan.world_size,
          .local_world_size = local_workers,
          .group_rank = plan.group_rank,
          .group_world_size = plan.group_world_size,
          .role_rank = plan.first_role_rank + local_rank,
          .role_world_size = plan.role_world_size};
}

Placement place_on_one_node(int rank, int workers) {
  return place_worker({.world_size = workers, .role_world_size = workers}, rank, workers);
}

const std::string* find_variable(const process::Environment& environment, std::string_view name) {
  auto found = std::find_if(environment.begin(), environment.end(), [&](const auto& e) { return e.first == name; });
  return found == environment.end() ? nullptr : &found->second;
}

int nesting_depth(const process::Environment& environment) {
  constexpr int64_t kMost = 1'000'000;
  const std::string* counted = find_variable(environment, "MUSTER_DEPTH");
  if (counted == nullptr) return 0;
  const size_t at = std::min(counted->find('@'), counted->size());
  const std::string job = at < counted->size() ? counted->substr(at + 1) : std::string();
  if (job != scheduler_job(environment)) return 0;
  return static_cast<int>(std::clamp<int64_t>(parse_int(counted->substr(0, at)).value_or(0), 0, kMost));
}

process::Environment worker_environment(const JobSpec& job, const RoundInfo& round, const Placement& placement) {
  Overlay overlay;
  if (job.ranked) {
    set_ranks(overlay, job, placement);
    set_torchelastic(overlay, job, round);
  }
  if (job.virtual_local_rank) set_virtual_device(overlay, job, placement.local_rank);
  set_muster(overlay, job, round, placement);
  for (const auto& [name, value] : round.variables) overlay.set(name, value);
  return std::move(overlay).over(job.environment);
}

bool is_computed(std::string_view name, bool ranked) {
  JobSpec job;
  job.ranked = ranked;
  job.signals_text = "SIGTERM";
  const std::string given = "given";
  job.environment = {{std::string(name), given}};
  return *find_variable(worker_environment(job, {}, {}), name) != given;
}

std::string worker_marker(const RoundInfo& round, int rank) { return "MUSTER_WORKER=" + worker_id(round, rank); }

Result<void> check_environment(const JobSpec& job) {
  const std::string* devices = find_variable(job.environment, "CUDA_VISIBLE_DEVICES");
  if (!job.virtual_local_rank || devices == nullptr) return {};
  size_t count = split(*devices, ',').size();
  if (count >= static_cast<size_t>(job.workers)) return {};
  return Error{ErrorKind::kUsage,
               fmt::format("--virtual-local-rank needs a device for each of the {} workers, CUDA_VISIBLE_DEVICES={} "
                           "names {}",
                           job.workers, *devices, count),
               fmt::format("use --nproc-per-node {}", count)};
}

std::string substitute_local_rank(std::string_view text, int local_rank) {
  return safe_substitute(text, [&](std::string_view name) {
    return name == "local_rank" ? std::optional(std::to_string(local_rank)) : std::nullopt;
  });
}

std::vector<std::string> worker_argv(const Command& command, int local_rank) {
  std::vector<std::string> argv;
  argv.reserve(command.argv.size() + 1);
  for (size_t i = 0; i < command.argv.size(); ++i) {
    const std::string& word = command.argv[i];
    argv.push_back(i < command.template_from ? word : substitute_local_rank(word, local_rank));
  }
  if (command.local_rank_position) {
    size_t position = std::min(*command.local_rank_position, argv.size());
    argv.insert(argv.begin() + static_cast<ptrdiff_t>(position),
                fmt::format("{}={}", command.local_rank_flag, local_rank));
  }
  return argv;
}

std::vector<std::string> shown_argv(const Command& command, int local_rank) {
  std::vector<std::string> argv = worker_argv(command, local_rank);
  for (size_t i = 0; i < std::min(command.template_from, argv.size()); ++i)
    if (argv[i].find('\n') != std::string::npos) argv[i] = "…";
  return argv;
}

}  // namespace muster::job
