#include "muster/cli/accelerate_plan.h"

#include <algorithm>
#include <filesystem>

#include "muster/accelerate/config_file.h"
#include "muster/accelerate/translate.h"
#include "muster/cli/accelerate_options.h"
#include "muster/cli/planning.h"
#include "muster/cli/request.h"
#include "muster/cluster/adapter.h"
#include "muster/process/cpus.h"

namespace muster::cli {
namespace {

using accelerate::CommandLine;
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

void add_surroundings(Machine& machine, const plan::Facts& facts) {
  if (!facts.here || !*facts.here) return;  // what makes no sense is said by the planner
  const cluster::Surroundings& here = **facts.here;
  machine.scheduler = here.adapter->title();
  if (here.role == cluster::Role::kPreset) {
    machine.machines = here.world_nodes;
    machine.rank = here.node_rank;
  } else if ((here.role == cluster::Role::kHead || here.role == cluster::Role::kTask) && here.nodes.size() > 1) {
    machine.machines = static_cast<int>(here.nodes.size());
    if (here.role == cluster::Role::kTask) machine.rank = here.node_rank;
  }
}

Machine this_machine() {
  Machine machine;
  machine.environment = own_environment();
  const process::GpuCount gpus = process::count_gpus(environment_variable);
  machine.gpus = gpus.count;
  if (gpus.visible_variable == "ZE_AFFINITY_MASK") machine.visible_variable = gpus.visible_variable;
  machine.peer_access = process::have_peer_access();
  machine.cores = process::usable_cores();
  if (const int physical = process::physical_cores(); physical > 0) machine.cores = std::min(machine.cores, physical);
  std::error_code error;
  machine.directory = std::filesystem::current_path(error).string();
  return machine;
}

Error in_its_words(Error error) {
  error.message = accelerate::in_its_words(std::move(error.message));
  error.hint = accelerate::in_its_words(std::move(error.hint));
  return error;
}

}  // namespace

accelerate::OwnOption own_option(std::string_view name) {
  for (const Option& option : options())
    if (option.name == name && accelerate_takes(option))
      return option.takes_value() ? accelerate::OwnOption::kValue : accelerate::OwnOption::kFlag;
  return accelerate::OwnOption::kUnknown;
}

Result<CommandLine> read_accelerate(const std::vector<std::string>& arguments, std::vector<std::string>& notes) {
  MUSTER_TRY(CommandLine line, accelerate::parse_command_line(arguments, own_option));
  if (line.help) return line;
  auto file = line.settings.get("config_file");
  if (!file) {
    const std::string usual = accelerate::default_config_file(environment_variable);
    std::error_code error;
    if (line.settings.flag("cpu") || !std::filesystem::exists(usual, error)) return line;
    file = usual;
  }
  auto text = read_text(*file);
  if (!text)
    return Error{ErrorKind::kUsage, fmt::format("--config_file: {}", text.error().message),
                 "give a file you may read, or leave it out"};
  MUSTER_TRY(accelerate::Value config, accelerate::parse_config(*text, *file));
  MUSTER_TRY_VOID(accelerate::apply_config(config, *file, line.settings, notes));
  return line;
}

Result<AccelerateJob> translate_accelerate(const CommandLine& line, const plan::Facts& facts) {
  std::vector<std::string> words = accelerate::torchrun_words(line.settings);
  words.insert(words.end(), line.own.begin(), line.own.end());
  words.insert(words.end(), line.program.begin(), line.program.end());
  const GetEnv getenv = without_decided(environment_variable);
  MUSTER_TRY(const Parsed parsed, parse_arguments(Verb::kRun, words, getenv));
  auto asking = make_request(Verb::kRun, parsed, getenv);
  if (!asking) return in_its_words(asking.error());
  AccelerateJob job{{}, std::move(asking->request), parsed.flag(Opt::kJson)};
  Machine machine = this_machine();
  add_surroundings(machine, facts);
  MUSTER_TRY(job.launch, accelerate::translate(line.settings, machine, job.request));
  return job;
}

Result<plan::JobPlan> plan_accelerate(const AccelerateJob& job, plan::Facts& facts) {
  auto planned = make_plan(job.request, facts);
  if (!planned) return in_its_words(planned.error());
  plan::JobPlan plan = *std::move(planned);
  if (job.launch.uneven && plan.symmetric() != nullptr)
    return Error{ErrorKind::kUsage,
                 fmt::format("{} processes cannot be shared out evenly, and the rank of this machine is not known",
                             *job.request.processes),
                 "give --machine_rank on every one"};
  std::vector<plan::Note> notes;
  for (const std::string& note : job.launch.notes) notes.push_back({LogLevel::kInfo, note});
  for (plan::Note& note : plan.notes) notes.push_back({note.level, accelerate::in_its_words(note.text)});
  plan.notes = std::move(notes);
  return plan;
}

Result<void> complete_accelerate(job::Request& request, const plan::Assignment& assignment) {
  Machine machine = this_machine();
  machine.agent = true;
  machine.workers = assignment.workers;
  return accelerate::complete(request, machine);
}

}  // namespace muster::cli
