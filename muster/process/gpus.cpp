#include "muster/process/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

namespace muster::process {
namespace {

constexpr int kMostGpus = 4096;  // more on one node is a typing error

bool contains(const std::vector<std::string>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

bool digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// As strtol() reads it, without leading zeros: "07x" is "7". Nothing for what starts with no digit or is negative.
std::optional<std::string> leading_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  text = text.substr(0, text.find_first_not_of("0123456789"));
  auto number = parse_int(text);
  if (!number || *number < 0) return std::nullopt;
  return std::to_string(*number);
}

std::vector<std::string> numbered(int count) {
  std::vector<std::string> ids;
  ids.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) ids.push_back(std::to_string(i));
  return ids;
}

GpuCount listed(std::vector<std::string> ids, const std::string& variable, const std::string& value,
                const char* visible_variable) {
  return {static_cast<int>(ids.size()), fmt::format("{}={}", variable, value), std::move(ids), visible_variable};
}

// HIP's list counts within ROCR's.
GpuCount count_rocm(const std::string& rocr, const std::optional<std::string>& hip) {
  auto given = parse_visible_devices(rocr);
  if (!hip) return listed(std::move(given), "ROCR_VISIBLE_DEVICES", rocr, "ROCR_VISIBLE_DEVICES");
  auto chosen = parse_visible_devices(*hip);
  auto outside = std::find_if(chosen.begin(), chosen.end(), [&](const std::string& id) {
    auto index = parse_int(id);
    return index && *index >= static_cast<int64_t>(given.size());
  });
  chosen.erase(outside, chosen.end());
  GpuCount result = listed(std::move(chosen), "HIP_VISIBLE_DEVICES", *hip, "HIP_VISIBLE_DEVICES");
  result.source += fmt::format(" of ROCR_VISIBLE_DEVICES={}", rocr);
  return result;
}

std::optional<GpuCount> count_by_scheduler(const GetEnv& getenv) {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL"}) {
    auto value = getenv(name);
    if (!value) continue;
    if (auto ids = parse_gpu_list(*value)) return listed(*std::move(ids), name, *value, "CUDA_VISIBLE_DEVICES");
  }
  for (const char* name : {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}) {
    auto value = getenv(name);
    if (!value) continue;
    if (auto count = parse_gpu_amount(*value)) {
      return listed(numbered(*count), name, *value, "CUDA_VISIBLE_DEVICES");
    }
  }
  return std::nullopt;
}

int count_entries(const std::string& folder) {
  std::error_code error;
  int count = 0;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++count;
  return count;
}

// CPUs are nodes of that topology too, with the id 0; a GPU that the container does not own cannot be read.
int count_kfd(const std::string& nodes) {
  std::error_code error;
  int count = 0;
  for (std::filesystem::directory_iterator it(nodes, error), end; !error && it != end; it.increment(error)) {
    auto id = read_file(it->path().string() + "/gpu_id");
    if (id && parse_int(trim(*id)).value_or(0) > 0) ++count;
  }
  return count;
}

}  // namespace

std::vector<std::string> parse_visible_devices(std::string_view value) {
  std::vector<std::string> devices;
  std::string_view first = trim(value);
  std::string_view kind = first.starts_with("GPU-") ? "GPU-" : first.starts_with("MIG-") ? "MIG-" : "";
  for (std::string_view entry : split(value, ',')) {
    entry = trim(entry);
    std::optional<std::string> device;
    if (kind.empty()) {
      device = leading_number(entry);
    } else if (entry.starts_with(kind)) {
      device = entry;
    }
    if (!device) break;
    if (contains(devices, *device)) return {};
    devices.push_back(*std::move(device));
  }
  return devices;
}

std::vector<std::string> parse_ze_mask(std::string_view value, bool composite) {
  std::vector<std::string> devices;
  for (std::string_view entry : split(value, ',')) {
    entry = trim(entry);
    size_t dot = entry.find('.');
    std::string_view card = entry.substr(0, dot);
    if (!digits(card) || (dot != std::string_view::npos && !digits(entry.substr(dot + 1)))) continue;
    std::string_view device = composite ? card : entry;
    if (!contains(devices, device)) devices.emplace_back(device);
  }
  return devices;
}

GpuCount share_of(const GpuCount& gpus, int part, int parts) {
  if (gpus.count == 0 || static_cast<int>(gpus.ids.size()) != gpus.count) return gpus;
  int begin = static_cast<int>(int64_t{gpus.count} * part / parts);
  int end = static_cast<int>(int64_t{gpus.count} * (part + 1) / parts);
  if (gpus.count < parts) {
    begin = part % gpus.count;
    end = begin + 1;
  }
  GpuCount share = gpus;
  share.count = end - begin;
  share.ids = {gpus.ids.begin() + begin, gpus.ids.begin() + end};
  share.source += fmt::format(", shared by {} nodes", parts);
  return share;
}

std::optional<int> parse_gpu_amount(std::string_view value) {
  int sum = 0;
  for (std::string_view entry : split(value, ',')) {
    entry = trim(entry.substr(0, entry.find('(')));
    size_t colon = entry.rfind(':');
    auto number = parse_int(colon == std::string_view::npos ? entry : entry.substr(colon + 1));
    if (!number || *number < 0 || *number > kMostGpus - sum) return std::nullopt;
    sum += static_cast<int>(*number);
  }
  return sum;
}

std::optional<std::vector<std::string>> parse_gpu_list(std::string_view value) {
  std::vector<std::string> ids;
  std::vector<bool> seen(kMostGpus);
  value = trim(value);
  if (value.starts_with("gpu:")) value.remove_prefix(4);
  if (value.empty()) return ids;
  for (std::string_view entry : split(value, ',')) {
    entry = trim(entry);
    size_t dash = entry.find('-');
    auto first = parse_int(entry.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : parse_int(entry.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostGpus) return std::nullopt;
    for (int64_t id = *first; id <= *last; ++id) {
      if (!seen[static_cast<size_t>(id)]) ids.push_back(std::to_string(id));
      seen[static_cast<size_t>(id)] = true;
    }
  }
  return ids;
}

GpuCount count_gpus(const GetEnv& getenv, const std::string& root) {
  if (auto value = getenv("CUDA_VISIBLE_DEVICES")) {
    return listed(parse_visible_devices(*value), "CUDA_VISIBLE_DEVICES", *value, "CUDA_VISIBLE_DEVICES");
  }
  auto hip = getenv("HIP_VISIBLE_DEVICES");
  if (auto rocr = getenv("ROCR_VISIBLE_DEVICES")) return count_rocm(*rocr, hip);
  if (hip) return listed(parse_visible_devices(*hip), "HIP_VISIBLE_DEVICES", *hip, "HIP_VISIBLE_DEVICES");
  if (auto mask = getenv("ZE_AFFINITY_MASK")) {
    bool composite = getenv("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE";
    return listed(parse_ze_mask(*mask, composite), "ZE_AFFINITY_MASK", *mask, "ZE_AFFINITY_MASK");
  }
  if (auto given = count_by_scheduler(getenv)) return *given;
  const std::string nvidia = "/proc/driver/nvidia/gpus";
  if (int count = count_entries(root + nvidia); count > 0) {
    return {count, nvidia, numbered(count), "CUDA_VISIBLE_DEVICES"};
  }
  const std::string kfd = "/sys/class/kfd/kfd/topology/nodes";
  if (int count = count_kfd(root + kfd); count > 0) return {count, kfd, numbered(count), "HIP_VISIBLE_DEVICES"};
  return {};
}

bool have_peer_access(const std::string& root) {
  int affected = 0, gpus = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", error)) {
    auto information = read_file(entry.path().string() + "/information");
    ++gpus;
    if (information && information->find("RTX 40") != std::string::npos) ++affected;
  }
  if (gpus < 2 || affected == 0) return true;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug …"
  auto text = read_file(root + "/proc/driver/nvidia/version");
  if (!text) return true;
  constexpr std::array<int64_t, 3> kEnough = {550, 40, 7};
  for (std::string_view word : split(text->substr(0, text->find('\n')), ' ')) {
    std::vector<std::string_view> parts = split(word, '.');
    if (parts.size() < 2 || !digits(parts[0]) || !digits(parts[1])) continue;
    std::array<int64_t, 3> version = {};
    for (size_t i = 0; i < std::min(parts.size(), version.size()); ++i) version[i] = parse_int(parts[i]).value_or(0);
    return version >= kEnough;
  }
  return true;
}

}  // namespace muster::process
