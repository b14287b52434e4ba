#include "muster/plan/node_environment.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "muster/process/gpus.h"

namespace muster::plan {
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

constexpr std::array<const char*, 4> kChoices = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                 "ZE_AFFINITY_MASK"};

std::vector<std::string> from_zero(size_t count) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

enum class Origin { kSlurm, kGuessed, kUser };

Origin origin_of(const Environment& environment, const std::string& value) {
  if (value == "NoDevFiles" || environment.get("GPU_DEVICE_ORDINAL") == value) return Origin::kSlurm;
  const std::vector<std::string> devices = process::parse_visible_devices(value);
  const bool by_name = !devices.empty() && !devices[0].empty() && (devices[0][0] < '0' || devices[0][0] > '9');
  const auto fits = [&](size_t count) { return devices == from_zero(count) || (by_name && devices.size() == count); };
  bool guessed = false;
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    auto list = environment.get(name);
    auto given = list ? process::parse_gpu_list(*list) : std::nullopt;
    if (given && devices == *given) return Origin::kSlurm;
    guessed = guessed || (given && fits(given->size()));
  }
  auto amount = environment.get("SLURM_GPUS_ON_NODE");
  auto count = amount ? process::parse_gpu_amount(*amount) : std::nullopt;
  guessed = guessed || (count && *count > 0 && fits(static_cast<size_t>(*count)));
  return guessed ? Origin::kGuessed : Origin::kUser;
}

}  // namespace

Environment devices_set_since(const Environment& launcher, const Environment& first) {
  Environment chosen;
  for (const char* name : kChoices)
    if (auto value = launcher.get(name); value && value != first.get(name)) chosen.add(name, *value);
  return chosen;
}

DevicesInSlurm devices_beside_slurm(const Environment& launcher) {
  DevicesInSlurm found;
  for (const char* name : kChoices) {
    auto value = launcher.get(name);
    const Origin origin = value ? origin_of(launcher, *value) : Origin::kSlurm;
    if (origin == Origin::kUser) found.chosen.add(name, *value);
    if (origin == Origin::kGuessed) found.guessed.add(name, *value);
  }
  return found;
}

Environment without_token(Environment environment) {
  environment.erase(kTokenVariable);
  return environment;
}

Environment environment_to_send(const Environment& launcher) {
  Environment sent = without_token(launcher);
  sent.erase_if(belongs_to_the_node);
  return sent;
}

Environment environment_of_node(const Environment& sent, const Environment& own) {
  Environment all = without_token(sent);
  for (const auto& [name, value] : own)
    if (belongs_to_the_node(name) && !sent.has(name)) all.add(name, value);
  return all;
}

Environment environment_of_task(Environment sent, Environment own, const std::string& host, int position) {
  own.set("HOSTNAME", host);
  if (sent.has("SLURM_NNODES")) own.erase("SLURM_NNODES");
  for (const char* name : {"SLURM_NODEID", "SLURM_PROCID"})
    if (own.has(name)) own.set(name, std::to_string(position));
  // In a step of Slurm what the user has exported came along: no devices means that the node has none for us.
  const bool whole = own.has("SLURM_JOB_ID");
  sent.erase_if([&](const std::string& name) {
    return is_set_by_a_scheduler(name) && (own.has(name) || (whole && names_devices(name)));
  });
  Environment all = environment_of_node(sent, own);
  for (const auto& [name, value] : own)
    if (is_set_by_a_scheduler(name)) all.add(name, value);
  return all;
}

}  // namespace muster::plan
