#include "muster/cluster/slurm/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_set>

#include "muster/base/strings.h"
#include "muster/process/gpus.h"

namespace muster::cluster::slurm {
namespace {

constexpr int64_t kFirstSpecialStep = 4294967290;  // this and above are no steps of srun
constexpr int64_t kInteractiveStep = 4294967290;
constexpr int64_t kMostComponents = 128;  // Slurm's own limit
constexpr size_t kShown = 80;             // of a value that makes no sense

std::string count_of(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Error senseless(std::string_view name, const std::string& value, std::string_view wanted) {
  return {ErrorKind::kUsage,
          fmt::format("this is a Slurm job, but {}='{}' is not a {}", name, value.substr(0, kShown), wanted),
          "leave it as Slurm sets it, name the nodes with --hosts, or stay on this one with --mode local"};
}

class Detection {
 public:
  explicit Detection(const GetEnv& getenv) : getenv_(getenv) {}

  Result<std::optional<Surroundings>> run() {
    here_.job_id = take({"SLURM_JOB_ID", "SLURM_JOBID"}, "the job");
    if (here_.job_id.empty()) return std::optional<Surroundings>();
    here_.job_name = take({"SLURM_JOB_NAME"}, "its name");
    MUSTER_TRY(std::vector<Host> allocation, find_allocation());
    MUSTER_TRY(const bool in_step, find_step());
    here_.node_name = take({"SLURMD_NODENAME"}, "what Slurm calls this node");
    MUSTER_TRY_VOID(in_step ? find_task(allocation) : find_head(allocation));
    if (here_.nodes.empty())
      return Error{ErrorKind::kUsage,
                   fmt::format("SLURM_JOB_ID={} is set and no SLURM_JOB_NODELIST", here_.job_id.substr(0, kShown)),
                   "pass all of SLURM_* on, name the nodes with --hosts, or stay on this one with --mode local"};
    here_.allocated = static_cast<int>(std::max(allocation.size(), here_.nodes.size()));
    if (allocation.size() > here_.nodes.size()) here_.allocation = std::move(allocation);
    here_.what = words();
    return std::optional(std::move(here_));
  }

 private:
  // The first of the variables that is set and not empty.
  std::string take(std::initializer_list<const char*> names, std::string meaning) {
    for (const char* name : names) {
      auto value = getenv_(name);
      if (!value || value->empty()) continue;
      here_.clues.push_back({name, *value, std::move(meaning)});
      return *std::move(value);
    }
    return "";
  }

  // A number, 0 or more; `missing` where it is unset.
  Result<int64_t> number(std::initializer_list<const char*> names, int64_t missing, std::string meaning) {
    const std::string text = take(names, std::move(meaning));
    if (text.empty()) return missing;
    auto value = parse_int(text);
    if (!value || *value < 0) return senseless(*names.begin(), text, "number");
    return *value;
  }

  Result<std::vector<Host>> hosts(std::initializer_list<const char*> names, std::string meaning) {
    std::vector<Host> found;
    const std::string text = take(names, std::move(meaning));
    if (text.empty()) return found;
    auto expanded = expand_hostlist(text);
    if (!expanded) return senseless(*names.begin(), text, "list of nodes: " + expanded.error().message);
    std::unordered_set<std::string> seen;
    for (std::string& name : *expanded)
      if (seen.insert(name).second) found.push_back({std::move(name), std::nullopt});
    return found;
  }

  // Of a heterogeneous job SLURM_JOB_NODELIST is what the first component has.
  Result<std::vector<Host>> find_allocation() {
    MUSTER_TRY(const int64_t components, number({"SLURM_HET_SIZE"}, 1, "components of a heterogeneous job"));
    if (components < 2) return hosts({"SLURM_JOB_NODELIST", "SLURM_NODELIST"}, "of the whole allocation");
    if (components > kMostComponents)
      return senseless("SLURM_HET_SIZE", std::to_string(components), "number of components");
    std::vector<Host> all;
    std::unordered_set<std::string> seen;  // a node may be in several
    for (int i = 0; i < components; ++i) {
      const std::string name = component_nodelist(i);
      MUSTER_TRY(std::vector<Host> more, hosts({name.c_str()}, fmt::format("of component {}", i)));
      if (more.empty()) return senseless(name, "", "list of nodes");
      for (Host& host : more)
        if (seen.insert(host.name).second) all.push_back(std::move(host));
    }
    here_.components = static_cast<int>(components);
    return all;
  }

  // Whether this is a step that srun has started.
  Result<bool> find_step() {
    MUSTER_TRY(const int64_t step, number({"SLURM_STEP_ID", "SLURM_STEPID"}, -1, ""));
    if (step < 0) return false;
    std::string& meaning = here_.clues.back().meaning;
    interactive_ = step == kInteractiveStep;
    special_ = step >= kFirstSpecialStep;
    meaning = interactive_ ? "the interactive step of salloc: as in a batch script"
              : special_   ? "no step of srun: as in a batch script"
                           : "a step of srun";
    if (!special_) here_.step_id = std::to_string(step);
    return !special_;
  }

  Result<void> find_head(const std::vector<Host>& allocation) {
    here_.role = Role::kHead;
    here_.nodes = allocation;
    for (size_t i = 0; i < here_.nodes.size(); ++i)
      if (here_.nodes[i].name == here_.node_name) here_.node_rank = static_cast<int>(i);
    return {};
  }

  Result<void> find_task(const std::vector<Host>& allocation) {
    MUSTER_TRY(here_.nodes, hosts({"SLURM_STEP_NODELIST"}, "of this step"));
    if (here_.nodes.empty()) here_.nodes = allocation;
    here_.role = here_.nodes.size() > 1 ? Role::kTask : Role::kOneNode;
    here_.in_step = here_.role == Role::kTask;
    here_.submit_host = getenv_("SLURM_SUBMIT_HOST").value_or("");
    MUSTER_TRY(const int64_t node, number({"SLURM_NODEID"}, 0, "number of this node in the step"));
    if (here_.nodes.empty()) return {};  // run() says so
    if (node >= static_cast<int64_t>(here_.nodes.size()))
      return senseless("SLURM_NODEID", std::to_string(node), fmt::format("node of {}", here_.nodes.size()));
    here_.node_rank = static_cast<int>(node);
    if (here_.node_name.empty()) here_.node_name = here_.nodes[static_cast<size_t>(node)].name;
    if (getenv_("SLURM_PTY_PORT")) {
      here_.terminal = true;
      (void)take({"SLURM_PTY_PORT"}, "srun --pty: a terminal, of the first task");
    }
    return find_tasks(static_cast<size_t>(node));
  }

  Result<void> find_tasks(size_t node) {
    const std::string tasks = take({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}, "tasks of each node");
    if (!tasks.empty()) {
      auto here = tasks_of_node(tasks, node);
      if (!here) return senseless("SLURM_STEP_TASKS_PER_NODE", tasks, here.error().message);
      here_.tasks_here = *here;
    }
    MUSTER_TRY(const int64_t local, number({"SLURM_LOCALID"}, 0, "which of this node's tasks this is"));
    if (local >= here_.tasks_here)
      return senseless("SLURM_LOCALID", std::to_string(local), fmt::format("task of {}", here_.tasks_here));
    here_.local_task = static_cast<int>(local);
    if (here_.tasks_here > 1) {
      find_binding();
      const std::string type = getenv_("SLURM_CPU_BIND_TYPE").value_or("");
      here_.bound_cpus = bound_cpus(type, take({"SLURM_CPU_BIND_LIST"}, "CPUs of each task here"), here_.tasks_here);
    }
    return {};
  }

  // Fewer GPUs can be seen than the node has for this step: the others are for the other tasks.
  void find_binding() {
    const std::string visible =
        take({"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}, "GPUs of this task");
    const auto of_node = process::parse_gpu_amount(take({"SLURM_GPUS_ON_NODE"}, "GPUs of this step on this node"));
    if (visible.empty() || !of_node) return;
    here_.gpus_bound_to_tasks = static_cast<int64_t>(split(visible, ',').size()) < *of_node;
    (void)take({"SLURMD_TRES_BIND"}, "how GPUs are bound to tasks");
  }

  std::string words() const {
    std::string job = fmt::format("Slurm job {}", here_.job_id);
    if (!here_.job_name.empty()) job += fmt::format(" ({})", here_.job_name);
    std::string nodes = count_of(here_.nodes.size(), "node");
    if (here_.components > 1 && here_.role == Role::kHead) nodes += fmt::format(" of {} components", here_.components);
    if (here_.role == Role::kHead) {
      const std::string_view place = interactive_              ? "interactive step"
                                     : here_.node_name.empty() ? "shell of salloc"
                                                               : "batch script";
      return fmt::format("{} of {} on {}", place, job, nodes);
    }
    std::string text = fmt::format("step {} of {} on {}", here_.step_id, job, nodes);
    if (here_.nodes.size() < static_cast<size_t>(here_.allocated)) text += fmt::format(" of {}", here_.allocated);
    if (here_.tasks_here > 1) text += fmt::format(", task {} of {} here", here_.local_task, here_.tasks_here);
    return text;
  }

  const GetEnv& getenv_;
  Surroundings here_;
  bool interactive_ = false, special_ = false;
};

// The CPUs of "0x80000000000000F1": the last digit has CPUs 0 to 3. Nothing: it is no mask.
std::optional<std::vector<int>> cpus_of_mask(std::string_view mask) {
  constexpr size_t kMostDigits = 1 << 12;
  if (mask.starts_with("0x")) mask.remove_prefix(2);
  if (mask.empty() || mask.size() > kMostDigits) return std::nullopt;
  std::vector<int> cpus;
  for (size_t i = 0; i < mask.size(); ++i) {
    const char digit = mask[mask.size() - 1 - i];
    if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) return std::nullopt;
    const int bits = std::stoi(std::string(1, digit), nullptr, 16);
    for (int bit = 0; bit < 4; ++bit)
      if ((bits >> bit & 1) != 0) cpus.push_back(static_cast<int>(4 * i) + bit);
  }
  return cpus;
}

}  // namespace

std::string component_nodelist(int component) { return fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", component); }

std::vector<int> bound_cpus(std::string_view type, std::string_view list, int tasks) {
  constexpr int64_t kMostCpus = 1 << 14;
  const bool masks = type.starts_with("mask_cpu");
  if (list.empty() || !(masks || type.starts_with("map_cpu"))) return {};
  std::set<int> all;
  for (std::string_view each : split(list, ',')) {
    if (tasks-- == 0) break;
    const auto cpu = masks ? std::nullopt : parse_int(each);
    auto cpus = masks                                  ? cpus_of_mask(each)
                : cpu && *cpu >= 0 && *cpu < kMostCpus ? std::optional(std::vector{static_cast<int>(*cpu)})
                                                       : std::nullopt;
    if (!cpus) return {};
    all.insert(cpus->begin(), cpus->end());
  }
  return {all.begin(), all.end()};
}

Result<int> tasks_of_node(std::string_view text, size_t index) {
  const Error bad{ErrorKind::kUsage, "list such as 2(x3),1", {}};
  uint64_t covered = 0;
  for (std::string_view piece : split(text, ',')) {
    uint64_t times = 1;
    if (const size_t open = piece.find("(x"); open != std::string_view::npos) {
      if (!piece.ends_with(')')) return bad;
      auto repeated = parse_int(piece.substr(open + 2, piece.size() - open - 3));
      if (!repeated || *repeated < 1 || *repeated > INT32_MAX) return bad;
      times = static_cast<uint64_t>(*repeated);
      piece = piece.substr(0, open);
    }
    auto tasks = parse_int(piece);
    if (!tasks || *tasks < 1 || *tasks > INT32_MAX) return bad;
    covered += times;
    if (index < covered) return static_cast<int>(*tasks);
  }
  return Error{ErrorKind::kUsage, fmt::format("list of so many as {} nodes", index + 1), {}};
}

Result<std::optional<Surroundings>> detect(const GetEnv& getenv) { return Detection(getenv).run(); }

}  // namespace muster::cluster::slurm
