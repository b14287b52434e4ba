#include "muster/cluster/slurm/words.h"

#include <fmt/format.h>

#include <array>

#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cluster/description.h"
#include "muster/cluster/hosts.h"

namespace muster::cluster::slurm {
namespace {

constexpr std::string_view kError = "srun: error: ";
constexpr size_t kLongest = 200;
constexpr size_t kMostTasks = 65536;

using enum StartCause;

// As Slurm 22.05 says it, and 20.11 to 24.05 mostly. The more telling stands first.
constexpr std::array kMeanings = {
    Meaning{"already completing or completed", kScheduler, "the job is ending", false, ""},
    Meaning{"Expired or invalid job", kScheduler, "there is no such job any more", false,
            "leave the shell of a job that is over"},
    Meaning{"Invalid job id specified", kScheduler, "there is no such job any more", false,
            "leave the shell of a job that is over"},
    Meaning{"Job violates accounting", kScheduler, "", false, ""},
    Meaning{"Step limit reached", kScheduler, "the job may have no more steps", false, ""},
    Meaning{"Required node not available", kScheduler, "the node is down, drained or reserved", false,
            "sinfo -R tells why; ask for another with --exclude"},
    Meaning{"Requested node configuration is not available", kScheduler, "the node is no longer part of the job", false,
            "scontrol show job tells which nodes it has"},
    Meaning{"Invalid node name", kNoSuchHost, "Slurm knows no such node", false, ""},
    Meaning{"Node failure on", kScheduler, "the node has failed", true, ""},
    Meaning{"Requested nodes are busy", kScheduler, "another step of the job holds it", true,
            "end that step, or start it with srun --overlap"},
    Meaning{"Invalid generic resource", kScheduler, "", false,
            "scontrol show job -d tells what the job has on each node"},
    Meaning{"Insufficient GRES", kScheduler, "", false, "scontrol show job -d tells what the job has on each node"},
    Meaning{"More processors requested than permitted", kScheduler, "", false, ""},
    Meaning{"Memory required by task", kScheduler, "", false, ""},
    Meaning{"Access/permission denied", kPermission, "the job is another user's", false, ""},
    Meaning{"unrecognized option", kThisMachine, "", false, "muster needs Slurm 20.11 or newer"},
    Meaning{"Invalid user id", kPermission, "", false, ""},
    Meaning{"authentication", kPermission, "munge says no: the clocks differ, or the keys do", false,
            "munge -n | ssh NODE unmunge shows which"},
    Meaning{"Unable to contact slurm controller", kScheduler, "slurmctld does not answer", true, ""},
    Meaning{"Slurm backup controller in standby mode", kScheduler, "slurmctld does not answer", true, ""},
    Meaning{"Slurm controller not responding", kScheduler, "slurmctld does not answer", true, ""},
    Meaning{"Could not establish a configuration source", kThisMachine, "srun finds no configuration", false,
            "set SLURM_CONF"},
    Meaning{"Communication connection failure", kUnreachable, "slurmd on the node does not answer", true, ""},
    Meaning{"Socket timed out", kTimedOut, "Slurm did not answer in time", true, ""},
    Meaning{"Job credential expired", kScheduler, "the clocks of the nodes differ", true, "look at the nodes' clocks"},
    Meaning{"CANCELLED", kScheduler, "the step was cancelled", false, ""},
};

std::string own_words(std::string_view line) {
  if (line.starts_with(kError)) line.remove_prefix(kError.size());
  if (line.starts_with("srun: ")) line.remove_prefix(6);
  if (line.starts_with("Unable to create step for job ")) {
    size_t colon = line.find(": ");
    if (colon != std::string_view::npos) line.remove_prefix(colon + 2);
  }
  return std::string(trim(line).substr(0, kLongest));
}

// "0-2,5"
std::vector<int> parse_tasks(std::string_view text) {
  std::vector<int> tasks;
  for (std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    auto first = parse_int(part.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<int64_t>(kMostTasks)) return {};
    if (tasks.size() + static_cast<size_t>(*last - *first) > kMostTasks) return {};
    for (int64_t task = *first; task <= *last; ++task) tasks.push_back(static_cast<int>(task));
  }
  return tasks;
}

}  // namespace

std::optional<TaskLine> parse_task_line(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  auto task = parse_int(trim(line.substr(0, colon)));  // srun pads the number to the width of the largest
  if (!task || *task < 0 || *task >= static_cast<int64_t>(kMostTasks)) return std::nullopt;
  std::string_view text = line.substr(colon + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  return TaskLine{static_cast<int>(*task), text};
}

std::optional<TaskEnd> parse_task_end(std::string_view line) {
  if (!line.starts_with(kError)) return std::nullopt;
  line.remove_prefix(kError.size());
  const size_t first = line.find(": ");
  if (first == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(first + 2);
  const size_t second = rest.find(": ");
  if (second == std::string_view::npos || !rest.starts_with("task")) return std::nullopt;
  std::string_view tasks = rest.substr(0, second);
  tasks.remove_prefix(tasks.starts_with("tasks ") ? 6 : tasks.starts_with("task ") ? 5 : tasks.size());
  auto nodes = expand_hostlist(line.substr(0, first));
  if (!nodes || nodes->empty() || tasks.empty()) return std::nullopt;
  TaskEnd end;
  end.nodes = *std::move(nodes);
  end.tasks = parse_tasks(tasks);
  if (end.tasks.size() != end.nodes.size()) end.tasks.clear();
  std::string_view how = trim(rest.substr(second + 2));
  constexpr std::string_view kExited = "Exited with ";
  if (how.starts_with(kExited)) {
    how.remove_prefix(kExited.size());
    if (how.starts_with("exit code "))
      if (auto code = parse_int(how.substr(10)); code && *code >= 0 && *code <= 255) end.code = static_cast<int>(*code);
  }
  end.how = how.substr(0, kLongest);
  return end;
}

std::optional<Greeting> parse_greeting(std::string_view line) {
  auto words = split(trim(line), ' ');
  if (words.size() != 4 || words[0] != kGreetingWord || words[3].empty()) return std::nullopt;
  Greeting greeting{.same_version = false, .version = std::string(words[1]), .node = std::string(words[3])};
  greeting.same_version = fmt::format("{} {} {}\n", words[0], words[1], words[2]) == agent_greeting();
  return greeting;
}

std::optional<std::string> why_not_executed(std::string_view text) {
  if (!text.starts_with("slurmstepd")) return std::nullopt;
  const size_t at = text.find("execve(): ");
  if (at == std::string_view::npos) return std::nullopt;
  const size_t colon = text.rfind(": ");
  return std::string(text.substr(colon + 2, kLongest));
}

std::optional<std::string> why_it_waits(std::string_view line) {
  const size_t at = line.find("retrying (");
  if (!line.starts_with("srun: ") || at == std::string_view::npos) return std::nullopt;
  std::string_view why = line.substr(at + 10);
  return std::string(why.substr(0, std::min(why.find(')'), kLongest)));
}

StartFailure explain_failure(int exit_code, std::string_view errors) {
  if (auto known = find_meaning(kMeanings, errors, own_words)) return *std::move(known);
  auto unknown = [](std::string text) {
    return StartFailure{kScheduler, {ErrorKind::kPeer, std::move(text), {}}, true};
  };
  for (std::string_view line : split(errors, '\n')) {
    if (!line.starts_with(kError)) continue;
    if (std::string text = own_words(line); !text.empty()) return unknown(std::move(text));
  }
  const std::string_view text = trim(errors);
  const std::string line = own_words(text.substr(text.empty() ? 0 : text.rfind('\n') + 1));
  return unknown(line.empty() ? fmt::format("exit code {}", exit_code) : line);
}

}  // namespace muster::cluster::slurm
