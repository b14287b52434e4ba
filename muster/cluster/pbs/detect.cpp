#include "muster/cluster/pbs/detect.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"

namespace muster::cluster::pbs {
namespace {

constexpr size_t kShown = 80;  // of a value that makes no sense

// The script's is "1"; those of tasks are eight hex digits, with the number of the node in the highest.
bool is_script(std::string_view task_number) { return task_number == "1"; }

// PBS_NODEFILE is readable on the node where the script runs, and nowhere in a container that does not mount it.
Error no_nodefile(const std::string& problem) {
  return {ErrorKind::kUsage, "this is a PBS job, but " + problem,
          "start muster outside of a container, name the nodes with --hosts or --hostfile, or stay on this one with "
          "--mode local"};
}

class Detection {
 public:
  Detection(const GetEnv& getenv, const ReadFile& read_file) : getenv_(getenv), read_file_(read_file) {}

  Result<std::optional<Surroundings>> run() {
    const std::string kind = value("PBS_ENVIRONMENT");
    if (kind != "PBS_BATCH" && kind != "PBS_INTERACTIVE") return std::optional<Surroundings>();
    interactive_ = kind == "PBS_INTERACTIVE";
    clue("PBS_ENVIRONMENT", kind, interactive_ ? "an interactive job" : "a job");
    MUSTER_TRY_VOID(find_job());
    MUSTER_TRY_VOID(find_role());
    MUSTER_TRY_VOID(find_nodes());
    here_.what = words();
    return std::optional(std::move(here_));
  }

 private:
  std::string value(const std::string& name) const { return getenv_(name).value_or(""); }
  void clue(std::string name, std::string value, std::string meaning) {
    here_.clues.push_back({std::move(name), std::move(value), std::move(meaning)});
  }

  Result<void> find_job() {
    here_.job_id = value("PBS_JOBID");
    if (here_.job_id.empty())
      return Error{ErrorKind::kUsage, "PBS_ENVIRONMENT is set, but PBS_JOBID is not",
                   "leave both as PBS sets them, or unset both"};
    here_.job_name = value("PBS_JOBNAME");
    clue("PBS_JOBID", here_.job_id, "the job");
    if (!here_.job_name.empty()) clue("PBS_JOBNAME", here_.job_name, "its name");
    if (const std::string index = value("PBS_ARRAY_INDEX"); !index.empty())
      clue("PBS_ARRAY_INDEX", index, "which of an array's jobs");
    return {};
  }

  Result<void> find_role() {
    const std::string node = value("PBS_NODENUM"), task = value("PBS_TASKNUM");
    const auto number = parse_int(node.empty() ? "0" : node);
    if (!number || *number < 0 || *number > INT32_MAX)
      return usage_error("PBS_NODENUM is \"{}\", which is not a number of a node", node.substr(0, kShown));
    here_.node_rank = static_cast<int>(*number);
    const bool head = *number == 0 && is_script(task.empty() ? "1" : task);
    here_.role = head ? Role::kHead : Role::kTask;
    if (!head) here_.step_id = task;
    clue("PBS_NODENUM", node, fmt::format("node {} of the job", *number));
    clue("PBS_TASKNUM", task, head ? "the script itself" : "a task that pbsdsh or pbs_tmrsh has started");
    return {};
  }

  Result<void> find_nodes() {
    const auto file = getenv_("PBS_NODEFILE");
    if (!file || file->empty()) {
      if (here_.role == Role::kTask) return {};
      return no_nodefile("PBS_NODEFILE is not set");
    }
    auto content = read_file_(*file);
    // On other nodes than the first it may be the name of a file that is not there.
    if (!content && here_.role == Role::kTask) return {};
    if (!content) return no_nodefile(fmt::format("its nodefile cannot be read: {}", content.error().message));
    auto hosts = parse_hostfile(*content);
    if (!hosts)
      return no_nodefile(fmt::format("its nodefile {} is not as it should be: {}", *file, hosts.error().message));
    return take_nodes(*file, *std::move(hosts));
  }

  Result<void> take_nodes(const std::string& file, std::vector<Host> hosts) {
    int64_t lines = 0;
    for (Host& host : hosts) {
      lines += host.workers.value_or(1);
      host.workers.reset();
    }
    clue("PBS_NODEFILE", file,
         fmt::format("{} line{}, {} host{}", lines, lines == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s"));
    const auto rank = static_cast<size_t>(*here_.node_rank);
    if (rank >= hosts.size())
      return no_nodefile(
          fmt::format("PBS_NODENUM is {}, and its nodefile {} names {} hosts", rank, file, hosts.size()));
    here_.node_name = hosts[rank].name;
    here_.allocated = static_cast<int>(hosts.size());
    here_.slots = static_cast<int>(std::min<int64_t>(lines, INT32_MAX));
    here_.nodes = std::move(hosts);
    return {};
  }

  std::string words() const {
    std::string job = fmt::format("PBS job {}", here_.job_id);
    if (!here_.job_name.empty()) job += fmt::format(" ({})", here_.job_name);
    if (here_.allocated > 0) job += fmt::format(" on {} node{}", here_.allocated, here_.allocated == 1 ? "" : "s");
    if (here_.role == Role::kTask) return fmt::format("a task on node {} of {}", *here_.node_rank, job);
    return fmt::format("{} of {}", interactive_ ? "interactive shell" : "batch script", job);
  }

  const GetEnv& getenv_;
  const ReadFile& read_file_;
  Surroundings here_;
  bool interactive_ = false;
};

}  // namespace

Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file) {
  return Detection(getenv, read_file).run();
}

}  // namespace muster::cluster::pbs
