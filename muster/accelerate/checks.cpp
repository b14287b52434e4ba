#include "muster/accelerate/checks.h"

#include <fmt/format.h>

#include "muster/base/strings.h"

namespace muster::accelerate {
namespace {

Result<std::vector<std::string>> supported(const Settings& settings) {
  std::vector<std::string> notes;
  if ((settings.flag("tpu") || settings.flag("tpu_cluster")) && !settings.flag("cpu"))
    return Error{ErrorKind::kUsage, "--tpu: muster starts no jobs on TPUs", "use accelerate itself for that"};
  for (std::string_view flag : {"deepspeed_exclusion_filter", "deepspeed_inclusion_filter"})
    if (settings.get(flag))
      return Error{ErrorKind::kUsage, fmt::format("--{} is not supported", flag), "leave hosts out of the hostfile"};
  for (const Option& option : options())
    if (option.group == Group::kElsewhere && settings.given(option.name))
      notes.push_back(fmt::format("--{} has no effect here", option.name));
  for (std::string_view flag : {"offload_optimizer_nvme_path", "offload_param_nvme_path"})
    if (settings.get(flag))
      notes.push_back(
          fmt::format("--{} reaches no worker, with accelerate neither; write it into --deepspeed_config_file", flag));
  return notes;
}

Result<void> check_together(const Settings& settings, bool agent) {
  std::vector<std::string> given;
  for (std::string_view flag : {"cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp"})
    if (settings.given(flag)) given.push_back(fmt::format("--{}", flag));
  if (given.size() > 1 && !agent)
    return Error{ErrorKind::kUsage, fmt::format("{} exclude each other", join(given, " and ")),
                 "leave all but one of them out"};
  if (settings.given("multi_gpu") && settings.given("num_processes") && !agent &&
      settings.integer("num_processes").value_or(2) < 2)
    return Error{ErrorKind::kUsage, "--multi_gpu is for two processes or more",
                 "leave it out, or give a larger --num_processes"};
  if (settings.flag("use_parallelism_config") && (!settings.flag("use_fsdp") || settings.get("fsdp_version") == "1"))
    return Error{ErrorKind::kUsage, "--use_parallelism_config needs --use_fsdp and --fsdp_version 2", "give both"};
  if (settings.flag("module") && settings.flag("no_python"))
    return Error{ErrorKind::kUsage, "--module and --no_python exclude each other", "leave one of them out"};
  return {};
}

Result<void> check_counts(const Settings& settings) {
  constexpr int64_t kMost = 1'000'000;
  for (std::string_view flag :
       {"num_processes", "num_machines", "machine_rank", "main_process_port", "num_cpu_threads_per_process"})
    if (auto number = settings.integer(flag); number && (*number < 0 || *number > kMost))
      return Error{ErrorKind::kUsage, fmt::format("--{}: {} is out of range", flag, *number),
                   "write a small number, 0 or more"};
  if (settings.integer("num_machines") == 0)
    return Error{ErrorKind::kUsage, "--num_machines: there is no job on 0 machines", "write 1 or more"};
  return {};
}

}  // namespace

Result<std::vector<std::string>> check(const Settings& settings, bool agent) {
  MUSTER_TRY(std::vector<std::string> notes, supported(settings));
  MUSTER_TRY_VOID(check_together(settings, agent));
  MUSTER_TRY_VOID(check_counts(settings));
  return notes;
}

}  // namespace muster::accelerate
