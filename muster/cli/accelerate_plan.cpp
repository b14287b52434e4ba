#include "muster/cli/accelerate_plan.h"

#include <algorithm>
#include <filesystem>

#include "muster/accelerate/config_file.h"
#include "muster/accelerate/translate.h"
#include "muster/cli/accelerate_options.h"
#include "muster/cli/verbs.h"
#include "muster/cluster/adapter.h"

namespace muster::cli {
namespace {

using accelerate::CommandLine;
using accelerate::Launch;
using accelerate::Machine;

// accelerate decides these itself, whatever PET_* says; all else of torchrun's can be set by its variables.
constexpr std::string_view kDecided[] = {
    "PET_NNODES",           "PET_NPROC_PER_NODE", "PET_NODE_RANK",    "PET_MASTER_PORT", "PET_TEE",
    "PET_LOG_DIR",          "PET_ROLE",           "PET_RDZV_BACKEND", "PET_RDZV_CONF",   "PET_MAX_RESTARTS",
    "PET_MONITOR_INTERVAL", "PET_MODULE",         "PET_NO_PYTHON",    "PET_RUN_PATH",    "PET_STANDALONE"};

GetEnv without_decided(const GetEnv& getenv) {
  return [getenv](const std::string& name) -> std::optional<std::string> {
    const bool decided = std::find(std::begin(kDecided), std::end(kDecided), name) != std::end(kDecided);
    return decided ? std::nullopt : getenv(name);
  };
}

void add_surroundings(Machine& machine, const Facts& facts) {
  // What makes no sense is said by the planner, which asks again.
  auto found = cluster::detect(facts.getenv, facts.read_file);
  if (!found || !*found) return;
  const cluster::Surroundings& here = **found;
  machine.scheduler = here.adapter->title();
  if (here.role == cluster::Role::kPreset) {
    machine.machines = here.world_nodes;
    machine.rank = here.node_rank;
  } else if ((here.role == cluster::Role::kHead || here.role == cluster::Role::kTask) && here.nodes.size() > 1) {
    machine.machines = static_cast<int>(here.nodes.size());
    if (here.role == cluster::Role::kTask) machine.rank = here.node_rank;
  }
}

Machine this_machine(const Facts& facts) {
  Machine machine;
  machine.environment = facts.environment;
  const process::GpuCount gpus = facts.gpus();
  machine.gpus = gpus.count;
  if (gpus.visible_variable == "ZE_AFFINITY_MASK") machine.visible_variable = gpus.visible_variable;
  machine.peer_access = facts.gpu_peer_access();
  machine.cores = facts.usable_cores();
  if (const int physical = facts.physical_cores(); physical > 0) machine.cores = std::min(machine.cores, physical);
  std::error_code error;
  machine.directory = std::filesystem::current_path(error).string();
  machine.port_is_free = [&facts](int port) {
    return port <= UINT16_MAX && facts.check_port(static_cast<uint16_t>(port)).ok();
  };
  return machine;
}

Wishes wishes_of(const Launch& launch) {
  return {.environment = launch.environment, .processes = launch.processes, .ranked = launch.ranked};
}

Error in_its_words(Error error) {
  error.message = accelerate::in_its_words(std::move(error.message));
  error.hint = accelerate::in_its_words(std::move(error.hint));
  return error;
}

// A complaint about --hostfile names the flag that was translated to it.
Error about_its_hostfile(Error error, const std::vector<std::string>& arguments) {
  constexpr std::string_view kOurs = "--hostfile:";
  if (!error.message.starts_with(kOurs)) return error;
  for (std::string_view flag : {"--deepspeed_hostfile", "--mpirun_hostfile"}) {
    auto is_flag = [flag](const std::string& word) { return word.starts_with(fmt::format("{}=", flag)); };
    if (std::any_of(arguments.begin(), arguments.end(), is_flag)) error.message.replace(0, kOurs.size() - 1, flag);
  }
  return error;
}

}  // namespace

accelerate::OwnOption own_option(std::string_view name) {
  for (const Option& option : options())
    if (option.name == name && accelerate_takes(option))
      return option.takes_value() ? accelerate::OwnOption::kValue : accelerate::OwnOption::kFlag;
  return accelerate::OwnOption::kUnknown;
}

Result<CommandLine> read_accelerate(const std::vector<std::string>& arguments, const Facts& facts,
                                    std::vector<std::string>& notes) {
  MUSTER_TRY(CommandLine line, accelerate::parse_command_line(arguments, own_option));
  if (line.help) return line;
  auto file = line.settings.get("config_file");
  if (!file) {
    const std::string usual = accelerate::default_config_file(facts.getenv);
    if (line.settings.flag("cpu") || facts.path_kind(usual) == PathKind::kMissing) return line;
    file = usual;
  }
  auto text = facts.read_file(*file);
  if (!text)
    return Error{ErrorKind::kUsage, fmt::format("--config_file: {}", text.error().message),
                 "give a file you may read, or leave it out"};
  MUSTER_TRY(accelerate::Value config, accelerate::parse_config(*text, *file));
  MUSTER_TRY_VOID(accelerate::apply_config(config, *file, line.settings, notes));
  return line;
}

Result<AccelerateJob> translate_accelerate(const CommandLine& line, const Facts& facts) {
  Machine machine = this_machine(facts);
  add_surroundings(machine, facts);
  AccelerateJob job;
  MUSTER_TRY(job.launch, accelerate::translate(line, machine));
  MUSTER_TRY(job.parsed, parse_arguments(Verb::kRun, job.launch.arguments, without_decided(facts.getenv)));
  job.arguments = accelerate::to_words(line);
  return job;
}

Result<JobPlan> plan_accelerate(const AccelerateJob& job, const Facts& facts) {
  const Launch& launch = job.launch;
  auto planned = plan_job(Verb::kRun, job.parsed, facts, wishes_of(launch));
  if (!planned) return in_its_words(about_its_hostfile(planned.error(), job.arguments));
  JobPlan plan = *std::move(planned);
  if (launch.uneven && std::holds_alternative<launcher::Symmetric>(plan.nodes))
    return Error{ErrorKind::kUsage,
                 fmt::format("{} processes cannot be shared out evenly, and the rank of this machine is not known",
                             *launch.processes),
                 "give --machine_rank on every one"};
  for (Note& note : plan.notes) note.text = accelerate::in_its_words(note.text);
  std::vector<Note> notes;
  for (const std::string& note : launch.notes) notes.push_back({LogLevel::kInfo, note});
  plan.notes.insert(plan.notes.begin(), notes.begin(), notes.end());
  if (auto* fan_out = std::get_if<launcher::FanOut>(&plan.nodes))
    fan_out->description.verb = info(Verb::kAccelerate).name;
  return plan;
}

Result<JobPlan> plan_accelerate_part(const std::vector<std::string>& arguments, const Facts& facts,
                                     const Assignment& assignment) {
  // The launcher's id of the job is in front.
  auto with_id = [](std::string_view name) {
    return name == "rdzv-id" ? accelerate::OwnOption::kValue : own_option(name);
  };
  MUSTER_TRY(CommandLine line, accelerate::parse_command_line(arguments, with_id, accelerate::Writer::kLauncher));
  Machine machine = this_machine(facts);
  machine.agent = true;
  machine.workers = assignment.workers;
  MUSTER_TRY(Launch launch, accelerate::translate(line, machine));
  MUSTER_TRY(Parsed parsed, parse_arguments(Verb::kRun, launch.arguments, without_decided(facts.getenv)));
  return plan_member(Verb::kRun, parsed, facts, assignment, wishes_of(launch));
}

}  // namespace muster::cli
