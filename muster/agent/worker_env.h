#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/agent/job.h"

namespace muster::agent {

// Where a worker stands in its round.
struct Placement {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  int group_rank = 0;
  int group_world_size = 1;
  int role_rank = 0;
  int role_world_size = 1;
};

struct RoundInfo {
  int round = 0;
  int restart_count = 0;
  std::string master_addr;
  uint16_t master_port = 0;
  std::string error_file;  // of this worker; empty when logs go to /dev/null
};

// The launcher's environment overlaid with torchrun's contract and MUSTER_*. Pure.
process::Environment worker_environment(const JobSpec& job, const RoundInfo& round, const Placement& placement);

// A variable muster sets for workers or reads itself: the one place where they are declared. `muster env` lists it.
struct Variable {
  std::string_view name;
  std::string_view set_by;  // "muster, for workers", "you, for muster"
  std::string_view meaning;
};
const std::vector<Variable>& declared_variables();

// string.Template's safe_substitute with the one name local_rank.
std::string substitute_local_rank(std::string_view text, int local_rank);
// The final command line of one worker.
std::vector<std::string> worker_argv(const Command& command, int local_rank);

}  // namespace muster::agent
