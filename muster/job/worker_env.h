#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/round.h"
#include "muster/job/spec.h"

namespace muster::job {

// The files that one worker has for itself.
struct WorkerFiles {
  std::string error = {};  // empty when logs go to /dev/null
  std::string timer = {};  // of torch's file timers; empty: none asked for
};

// The launcher's environment overlaid with torchrun's contract and MUSTER_*. Pure.
Environment worker_environment(const JobSpec& job, const Round& round, const Placement& placement,
                               const WorkerFiles& files = {});

// "MUSTER_WORKER=<job>.<round>.<rank>": in the environment of one worker and of whatever it starts, and in no other.
std::string worker_marker(const Round& round, int rank);

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
