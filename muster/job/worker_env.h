#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::job {

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

// What a round is for one node: where its ranks lie in the world, and where all meet.
struct RoundPlan {
  int round = 0;
  int restarts = 0;
  int first_rank = 0, world_size = 1;
  int group_rank = 0, group_world_size = 1;
  int first_role_rank = 0, role_world_size = 1;
  std::string master_addr = {};
  uint16_t master_port = 0;
  std::string job = {};        // no other job, anywhere, has this id
  Environment variables = {};  // for every worker, on top of the job's
  Duration lease = {};         // of this node in a job of several nodes; 0 in a job of one node
};

Placement place_worker(const RoundPlan& plan, int local_rank, int local_workers);
// Of one of the `workers` of a job that has this node alone.
Placement place_on_one_node(int rank, int workers);

struct RoundInfo {
  int round = 0;
  int restart_count = 0;
  std::string master_addr;
  uint16_t master_port = 0;
  std::string error_file;  // of this worker; empty when logs go to /dev/null
  std::string timer_file;  // of torch's file timers; empty: none asked for
  std::string job;         // no other job, anywhere, has this id
  std::string host;
  Environment variables = {};  // of the round's plan
};

// The launcher's environment overlaid with torchrun's contract and MUSTER_*. Pure.
Environment worker_environment(const JobSpec& job, const RoundInfo& round, const Placement& placement);

// "MUSTER_WORKER=<job>.<round>.<rank>": in the environment of one worker and of whatever it starts, and in no other.
std::string worker_marker(const RoundInfo& round, int rank);

// Whether a worker finds a value of muster's own in that variable, whatever the environment around it has. Pure.
bool is_computed(std::string_view name, bool ranked);

// What of the job does not fit together for its workers' environment, e.g. fewer visible devices than workers.
Result<void> check_environment(const JobSpec& job);

// A variable muster sets for workers or reads itself: the one place where they are declared. `muster env` lists it.
struct Variable {
  std::string_view name;
  std::string_view set_by;  // kSetByMuster or kSetByYou
  std::string_view meaning;
};
inline constexpr std::string_view kSetByMuster = "muster, for workers";
inline constexpr std::string_view kSetByYou = "you, for muster";
const std::vector<Variable>& declared_variables();

// How many musters a process with this environment runs inside of: MUSTER_DEPTH. The count is that of one job of a
// scheduler: a worker may submit the next job with its own environment, and that job counts from 0. Pure.
int nesting_depth(const Environment& environment);

// safe_substitute() with the one name local_rank.
std::string substitute_local_rank(std::string_view text, int local_rank);
// The final command line of one worker.
std::vector<std::string> worker_argv(const Command& command, int local_rank);
// The same for people to read: a program of muster's own in it (python -c …) is left out.
std::vector<std::string> shown_argv(const Command& command, int local_rank);

}  // namespace muster::job
