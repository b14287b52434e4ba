#include "muster/process/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <set>

#include "muster/base/fd.h"
#include "muster/process/cgroup.h"

namespace muster::process {
namespace {

std::optional<double> quota_of(const CgroupPlace& place, const std::string& folder) {
  if (place.v2) {
    auto text = read_file(folder + "/cpu.max");
    return text ? parse_cpu_max(*text) : std::nullopt;
  }
  auto quota = read_file(folder + "/cpu.cfs_quota_us");
  auto period = read_file(folder + "/cpu.cfs_period_us");
  return quota && period ? parse_cfs_quota(*quota, *period) : std::nullopt;
}

}  // namespace

std::vector<int> affinity_cpus() {
  // The kernel refuses a mask smaller than its own, whose size nothing tells: grow until it fits.
  for (size_t words = 16; words <= (1 << 16); words *= 2) {
    std::vector<unsigned long> mask(words);
    size_t bytes = words * sizeof(unsigned long);
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, bytes, set) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < bytes * 8; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return {0};
}

Result<void> set_affinity(const std::vector<int>& cpus) {
  if (cpus.empty() || cpus.front() < 0) return Error{ErrorKind::kUsage, "no CPUs", {}};
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<size_t>(*std::ranges::max_element(cpus)) / kBits + 1);
  for (int cpu : cpus) mask[static_cast<size_t>(cpu) / kBits] |= 1UL << (static_cast<size_t>(cpu) % kBits);
  if (sched_setaffinity(0, mask.size() * sizeof(unsigned long), reinterpret_cast<const cpu_set_t*>(mask.data())) != 0)
    return system_error(errno, "sched_setaffinity");
  return {};
}

int usable_cores(const std::string& root) {
  auto cores = static_cast<double>(affinity_cpus().size());
  for (const CgroupPlace& place : read_cgroups("cpu", root)) {
    for (const std::string& folder : place.folders) {
      if (auto quota = quota_of(place, folder)) cores = std::min(cores, std::ceil(*quota));
    }
  }
  return std::max(1, static_cast<int>(cores));
}

int physical_cores(const std::string& root) {
  std::set<std::string> cores;  // each by the list of its hyperthreads
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/sys/devices/system/cpu", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos) continue;
    auto threads = read_file(entry.path().string() + "/topology/thread_siblings_list");
    if (threads) cores.insert(*threads);
  }
  return static_cast<int>(cores.size());
}

int threads_per_worker(int cores, int workers) { return std::max(1, cores / std::max(1, workers)); }

}  // namespace muster::process
