#pragma once

#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/cluster/slurm/words.h"

// Why there is no agent on a node, for people, and whether another try may do. All pure.
namespace muster::cluster::slurm {

// How far an agent has come.
enum class Stage {
  kStarted,  // perhaps
  kAsked,    // for its description
  kJoined    // it was a member of the job
};

// The task has ended: the agent, or what srun made of it.
StartFailure task_failed(const TaskEnd& end, std::string_view last_line, Stage stage);

// srun itself has. `errors`: what it said.
StartFailure step_failed(int exit_code, std::string_view errors, bool joined);

// srun would wait for ever.
StartFailure timed_out(Duration limit, std::string_view errors);

// `program`, which may have been sent there, does not run, or is of another version.
StartFailure cannot_run(const std::string& program, const std::string& why, bool sent, StartCause cause);

}  // namespace muster::cluster::slurm
