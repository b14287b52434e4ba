#include "muster/cli/node_environment.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "muster/process/gpus.h"

namespace muster::cli {
namespace {

bool belongs_to_the_node(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {
      "HOSTNAME",        "HOME",           "USER",    "LOGNAME",  "MAIL",      "TMPDIR",
      "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DISPLAY", "WINDOWID", "LS_COLORS", "XAUTHORITY"};
  return name.starts_with("SSH_") || name.starts_with("DBUS_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Which devices there are for us is a matter of each node.
bool names_devices(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
      "ZE_AFFINITY_MASK",     "SLURM_JOB_GPUS",       "SLURM_STEP_GPUS",     "SLURM_GPUS_ON_NODE"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_set_by_a_scheduler(std::string_view name) {
  return name.starts_with("SLURM_") || name.starts_with("SLURMD_") || name.starts_with("PBS_") || names_devices(name);
}

bool has(const process::Environment& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const auto& each) { return each.first == name; });
}

constexpr std::array<const char*, 4> kChoices = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                 "ZE_AFFINITY_MASK"};

std::optional<std::string> value_of(const process::Environment& environment, std::string_view name) {
  for (const auto& [each, value] : environment)
    if (each == name) return value;
  return std::nullopt;
}

std::vector<std::string> from_zero(size_t count) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

enum class Origin { kSlurm, kGuessed, kUser };

Origin origin_of(const process::Environment& environment, const std::string& value) {
  if (value == "NoDevFiles" || value_of(environment, "GPU_DEVICE_ORDINAL") == value) return Origin::kSlurm;
  const std::vector<std::string> devices = process::parse_visible_devices(value);
  const bool by_name = !devices.empty() && !devices[0].empty() && (devices[0][0] < '0' || devices[0][0] > '9');
  const auto fits = [&](size_t count) { return devices == from_zero(count) || (by_name && devices.size() == count); };
  bool guessed = false;
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    auto list = value_of(environment, name);
    auto given = list ? process::parse_gpu_list(*list) : std::nullopt;
    if (given && devices == *given) return Origin::kSlurm;
    guessed = guessed || (given && fits(given->size()));
  }
  auto amount = value_of(environment, "SLURM_GPUS_ON_NODE");
  auto count = amount ? process::parse_gpu_amount(*amount) : std::nullopt;
  guessed = guessed || (count && *count > 0 && fits(static_cast<size_t>(*count)));
  return guessed ? Origin::kGuessed : Origin::kUser;
}

}  // namespace

process::Environment devices_set_since(const process::Environment& launcher, const process::Environment& first) {
  process::Environment chosen;
  for (const char* name : kChoices)
    if (auto value = value_of(launcher, name); value && value != value_of(first, name))
      chosen.emplace_back(name, *value);
  return chosen;
}

DevicesInSlurm devices_beside_slurm(const process::Environment& launcher) {
  DevicesInSlurm found;
  for (const char* name : kChoices) {
    auto value = value_of(launcher, name);
    const Origin origin = value ? origin_of(launcher, *value) : Origin::kSlurm;
    if (origin == Origin::kUser) found.chosen.emplace_back(name, *value);
    if (origin == Origin::kGuessed) found.guessed.emplace_back(name, *value);
  }
  return found;
}

process::Environment without_token(process::Environment environment) {
  std::erase_if(environment, [](const auto& variable) { return variable.first == kTokenVariable; });
  return environment;
}

process::Environment environment_to_send(const process::Environment& launcher) {
  process::Environment sent = without_token(launcher);
  std::erase_if(sent, [](const auto& variable) { return belongs_to_the_node(variable.first); });
  return sent;
}

process::Environment environment_of_node(const process::Environment& sent, const process::Environment& own) {
  process::Environment all = without_token(sent);
  for (const auto& variable : own) {
    if (belongs_to_the_node(variable.first) && !has(sent, variable.first)) all.push_back(variable);
  }
  return all;
}

process::Environment environment_of_task(process::Environment sent, process::Environment own, const std::string& host,
                                         int position) {
  std::erase_if(own, [](const auto& variable) { return variable.first == "HOSTNAME"; });
  own.emplace_back("HOSTNAME", host);
  std::erase_if(own,
                [&](const auto& variable) { return variable.first == "SLURM_NNODES" && has(sent, "SLURM_NNODES"); });
  for (auto& [name, value] : own)
    if (name == "SLURM_NODEID" || name == "SLURM_PROCID") value = std::to_string(position);
  // In a step of Slurm what the user has exported came along: no devices means that the node has none for us.
  const bool whole = has(own, "SLURM_JOB_ID");
  std::erase_if(sent, [&](const auto& variable) {
    return is_set_by_a_scheduler(variable.first) &&
           (has(own, variable.first) || (whole && names_devices(variable.first)));
  });
  process::Environment all = environment_of_node(sent, own);
  for (const auto& variable : own)
    if (is_set_by_a_scheduler(variable.first)) all.push_back(variable);
  return all;
}

}  // namespace muster::cli
