#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/start_failure.h"

// What srun says. All pure; a line may have anything in it.
namespace muster::cluster::slurm {

// "3: text": a line of a task (--label).
struct TaskLine {
  int task = 0;
  std::string_view text;
};
std::optional<TaskLine> parse_task_line(std::string_view line);

// "srun: error: n[1-2]: tasks 0-1: Exited with exit code 125", "… n3: task 2: Killed".
struct TaskEnd {
  std::vector<std::string> nodes;
  std::vector<int> tasks;   // as many, in the same order; or none
  std::optional<int> code;  // none: a signal
  std::string how;          // "exit code 125", "Killed"
};
std::optional<TaskEnd> parse_task_end(std::string_view line);

// "muster-agent 0.1.0 2 n2": the first thing that an agent says on stdout where nobody has told it its name.
struct Greeting {
  bool same_version = false;
  std::string version, node;
};
std::optional<Greeting> parse_greeting(std::string_view line);

// slurmstepd's word that the program cannot be executed on its node: "No such file or directory".
std::optional<std::string> why_not_executed(std::string_view text);

// Why srun waits: "Requested nodes are busy", of "… step creation temporarily disabled, retrying (Requested nodes …)".
std::optional<std::string> why_it_waits(std::string_view line);

// Why srun started nothing, or ended, from what it said itself.
StartFailure explain_failure(int exit_code, std::string_view errors);

}  // namespace muster::cluster::slurm
