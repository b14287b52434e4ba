#include "muster/cluster/slurm/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "muster/base/strings.h"
#include "muster/cluster/slurm/detect.h"

namespace muster::cluster::slurm {
namespace {

// The value of "Name=" at the beginning of a word; empty: there is none.
std::string_view value_of(std::string_view line, std::string_view name) {
  for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    std::string_view value = line.substr(at + name.size());
    return value.substr(0, value.find(' '));
  }
  return {};
}

// "gpu:a100:2(IDX:0-1),nic:1" without what is in parentheses.
std::string without_indices(std::string_view text) {
  std::string plain;
  int depth = 0;
  for (char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) plain += c;
    if (c == ')' && depth > 0) --depth;
  }
  return plain;
}

// "gpu:v100:4" without its type: a step may ask for a type only where the job has. A node that has several keeps them.
std::string without_types(const std::string& devices) {
  std::vector<std::string> plain;
  std::set<std::string_view> names;
  for (std::string_view each : split(devices, ',')) {
    const std::string_view name = each.substr(0, each.find(':'));
    if (!names.insert(name).second) return devices;
    const size_t type = each.find(':'), count = each.rfind(':');
    plain.push_back(type == count ? std::string(each) : fmt::format("{}{}", name, each.substr(count)));
  }
  return join(plain, ",");
}

// The devices of the group's nodes as an option. Where the job was given a total, only the total of one node is sure,
// or one device each.
std::string option_for(const std::string& devices, bool by_total) {
  if (devices.empty()) return "--gres=none";
  if (!by_total) return "--gres=" + devices;
  std::vector<std::string> counts;
  for (std::string_view each : split(devices, ','))
    if (each.starts_with("gpu:")) counts.emplace_back(each.substr(4));
  return "--gpus=" + join(counts, ",");
}

std::optional<std::string> of_node(const Devices& devices, const std::string& host) {
  auto known = devices.node.find(host);
  return known == devices.node.end() ? std::nullopt : std::optional(known->second);
}

bool is_one_gpu(const std::string& devices) {
  return devices.starts_with("gpu:") && devices.ends_with(":1") && devices.find(',') == std::string::npos;
}

}  // namespace

bool may_have_devices(const Environment& environment) {
  bool in_step = false, devices = false;
  for (const auto& [name, value] : environment) {
    devices |= name == "SLURM_HET_SIZE";  // other components may have some
    in_step |= name == "SLURM_PROCID";
    devices |= name.starts_with("SLURM_GPUS") || name == "SLURM_JOB_GPUS" || name == "SLURM_STEP_GPUS" ||
               name == "CUDA_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES";
  }
  return devices || !in_step;
}

Devices parse_devices(std::string_view scontrol) {
  Devices found;
  for (std::string_view line : split(scontrol, '\n')) {
    line = trim(line);
    if (line.starts_with("TresPerJob=")) found.counted_by_job |= line.find("gpu") != std::string_view::npos;
    if (!line.starts_with("Nodes=")) continue;
    auto hosts = expand_hostlist(value_of(line, "Nodes="));
    if (!hosts) continue;
    const std::string devices = without_types(without_indices(value_of(line, "GRES=")));
    // A node in several components is started in the first of them, as components_of() has it.
    for (const std::string& host : *hosts) found.node.try_emplace(host, devices);
  }
  return found;
}

Components components_of(const Environment& environment) {
  Components found;
  for (int i = 0;; ++i) {
    const std::string* list = environment.find(component_nodelist(i));
    if (list == nullptr) return found;
    auto hosts = expand_hostlist(*list);
    if (!hosts) return {};
    for (const std::string& host : *hosts) found.try_emplace(host, i);
  }
}

std::vector<Group> divide(const std::vector<std::string>& hosts, const std::optional<Devices>& devices,
                          const Components& components) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, size_t> by_options;
  const bool none = !devices || std::all_of(devices->node.begin(), devices->node.end(),
                                            [](const auto& node) { return node.second.empty(); });
  for (size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::string> options;
    bool alone = false;
    if (auto component = components.find(hosts[i]); component != components.end())
      options.push_back(fmt::format("--het-group={}", component->second));
    if (auto text = none ? std::nullopt : of_node(*devices, hosts[i])) {
      alone = devices->counted_by_job && !text->empty() && !is_one_gpu(*text);
      options.push_back(option_for(*text, alone));
    }
    auto [group, is_new] = by_options.try_emplace(options, groups.size());
    if (alone || is_new) {
      group->second = groups.size();
      groups.push_back({{}, options});
    }
    groups[group->second].hosts.push_back(i);
  }
  return groups;
}

std::vector<std::string> srun_command(const Options& options, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& more, const std::string& bcast) {
  const std::string count = std::to_string(hosts.size());
  std::vector<std::string> words = {
      "srun", "--nodelist=" + join(hosts, ","), "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1",
      // beside whatever else the job runs, with all that the job has on the node
      "--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none",
      // one that ends does not end the others
      "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--chdir=/", "--input=none", "--label"};
  words.insert(words.end(), more.begin(), more.end());
  if (!bcast.empty()) words.insert(words.end(), {"--bcast=" + bcast, "--send-libs=no"});
  for (std::string& word : fetch_command(options.program, options.fetch)) words.push_back(std::move(word));
  if (!bcast.empty()) words.insert(words.end(), {"--program", "temporary"});
  return words;
}

Environment srun_environment(Environment environment) {
  // Of the input variables of srun(1) those that shape a step; and which GPUs this node has, since that is not set anew
  // on every node.
  constexpr std::string_view kPrefix = "SLURM_";
  constexpr std::string_view kNames =
      "ACCTG_FREQ BCAST BCAST_EXCLUDE COMPRESS CONSTRAINT CORE_SPEC CPUS_PER_GPU CPUS_PER_TASK CPU_FREQ_REQ "
      "DEPENDENCY DISTRIBUTION DIST_PLANESIZE EXACT EXCLUSIVE EXPORT_ENV GPUS GPUS_ON_NODE GPUS_PER_NODE "
      "GPUS_PER_SOCKET GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GRES_FLAGS HINT IMMEDIATE JOB_GPUS JOB_NUM_NODES "
      "KILL_BAD_EXIT LABELIO MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE MPI_TYPE NNODES NO_KILL NPROCS "
      "NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET NTASKS_PER_TRES OVERCOMMIT "
      "OVERLAP PROFILE REMOTE_CWD RESV_PORTS SEND_LIBS SIGNAL STDERRMODE STDINMODE STDOUTMODE STEP_GPUS "
      "STEP_GRES TEST_EXEC THREADS THREADS_PER_CORE TIMELIMIT TRES_PER_TASK UNBUFFEREDIO WAIT WHOLE "
      "WORKING_DIR";
  const std::vector<std::string_view> names = split(kNames, ' ');
  environment.erase_if([&](const std::string& name) {
    if (name.starts_with("SRUN_") || name.starts_with("SLURM_CPU_BIND")) return true;
    return name.starts_with(kPrefix) && std::ranges::find(names, name.substr(kPrefix.size())) != names.end();
  });
  return environment;
}

}  // namespace muster::cluster::slurm
