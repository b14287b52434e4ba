#include "muster/job/worker_env.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/job/python_template.h"
#include "muster/process/site_packages.h"

namespace muster::job {
namespace {

void set(Environment& environment, std::string_view name, int value) { environment.set(name, std::to_string(value)); }

// The variable was renamed in torch 2.2; a version that nobody knows is taken for a current one.
std::string_view nccl_error_handling_name(std::string_view torch_version) {
  auto version = process::parse_torch_version(torch_version);
  bool old = version && (version->major < 2 || (version->major == 2 && version->minor <= 1));
  return old ? "NCCL_ASYNC_ERROR_HANDLING" : "TORCH_NCCL_ASYNC_ERROR_HANDLING";
}

void set_ranks(Environment& environment, const JobSpec& job, const Placement& placement) {
  set(environment, "RANK", placement.rank);
  set(environment, "LOCAL_RANK", job.virtual_local_rank ? 0 : placement.local_rank);
  set(environment, "GROUP_RANK", placement.group_rank);
  set(environment, "GROUP_WORLD_SIZE", placement.group_world_size);
  set(environment, "LOCAL_WORLD_SIZE", placement.local_world_size);
  set(environment, "WORLD_SIZE", placement.world_size);
  environment.set("ROLE_NAME", job.role);
  set(environment, "ROLE_RANK", placement.role_rank);
  set(environment, "ROLE_WORLD_SIZE", placement.role_world_size);
}

void set_torchelastic(Environment& environment, const JobSpec& job, const Round& round, const WorkerFiles& files) {
  environment.set("MASTER_ADDR", round.master_addr);
  set(environment, "MASTER_PORT", round.master_port);
  set(environment, "TORCHELASTIC_RESTART_COUNT", round.restarts);
  set(environment, "TORCHELASTIC_MAX_RESTARTS", job.max_restarts);
  environment.set("TORCHELASTIC_RUN_ID", job.run_id);
  environment.set("TORCHELASTIC_USE_AGENT_STORE", job.store_host == StoreHost::kAgent ? "True" : "False");
  environment.set("TORCHELASTIC_ERROR_FILE", files.error);
  if (!job.signals_text.empty()) environment.set("TORCHELASTIC_SIGNALS_TO_HANDLE", job.signals_text);
  if (!files.timer.empty()) environment.set("TORCHELASTIC_TIMER_FILE", files.timer);
  std::string_view nccl = nccl_error_handling_name(job.torch_version);
  if (!job.environment.has(nccl)) environment.set(nccl, "1");
}

// The worker sees one device and calls it number 0.
void set_virtual_device(Environment& environment, const JobSpec& job, int local_rank) {
  const std::string* given = job.environment.find("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) {
    set(environment, "CUDA_VISIBLE_DEVICES", local_rank);
    return;
  }
  std::vector<std::string_view> devices = split(*given, ',');
  auto index = static_cast<size_t>(local_rank);
  environment.set("CUDA_VISIBLE_DEVICES", std::string(index < devices.size() ? trim(devices[index]) : ""));
}

std::string worker_id(const Round& round, int rank) { return fmt::format("{}.{}.{}", round.job, round.number, rank); }

// The job of the scheduler that an environment belongs to; empty: none.
std::string scheduler_job(const Environment& environment) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID"})
    if (const std::string* job = environment.find(name)) return *job;
  return {};
}

std::string depth_of_workers(const Environment& environment) {
  const std::string job = scheduler_job(environment);
  return fmt::format("{}{}{}", nesting_depth(environment) + 1, job.empty() ? "" : "@", job);
}

void set_muster(Environment& environment, const JobSpec& job, const Round& round, const Placement& placement) {
  environment.set("MUSTER_VERSION", std::string(version()));
  environment.set("MUSTER_JOB", round.job);
  environment.set("MUSTER_WORKER", worker_id(round, placement.rank));
  set(environment, "MUSTER_ROUND", round.number);
  environment.set("MUSTER_HOST", job.host);
  environment.set("MUSTER_DEPTH", depth_of_workers(job.environment));
  if (!job.environment.has("MUSTER_ATTEMPT")) set(environment, "MUSTER_ATTEMPT", 0);
}

}  // namespace

int nesting_depth(const Environment& environment) {
  constexpr int64_t kMost = 1'000'000;
  const std::string* counted = environment.find("MUSTER_DEPTH");
  if (counted == nullptr) return 0;
  const size_t at = std::min(counted->find('@'), counted->size());
  const std::string job = at < counted->size() ? counted->substr(at + 1) : std::string();
  if (job != scheduler_job(environment)) return 0;
  return static_cast<int>(std::clamp<int64_t>(parse_int(counted->substr(0, at)).value_or(0), 0, kMost));
}

Environment worker_environment(const JobSpec& job, const Round& round, const Placement& placement,
                               const WorkerFiles& files) {
  Environment environment = job.environment;
  if (job.ranked) {
    set_ranks(environment, job, placement);
    set_torchelastic(environment, job, round, files);
  }
  if (job.virtual_local_rank) set_virtual_device(environment, job, placement.local_rank);
  set_muster(environment, job, round, placement);
  environment.set_all(round.variables);
  return environment;
}

bool is_computed(std::string_view name, bool ranked) {
  JobSpec job;
  job.ranked = ranked;
  job.signals_text = "SIGTERM";
  const std::string given = "given";
  job.environment = {{std::string(name), given}};
  return worker_environment(job, {}, {}).get(name) != given;
}

std::string worker_marker(const Round& round, int rank) { return "MUSTER_WORKER=" + worker_id(round, rank); }

Result<void> check_environment(const JobSpec& job) {
  const std::string* devices = job.environment.find("CUDA_VISIBLE_DEVICES");
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
