#include "muster/cli/job_planner.h"
#include "muster/cluster/pbs/tools.h"

// The nodes of a PBS job.
namespace muster::cli {

void Planner::plan_pbs(launcher::FanOut& spec) {
  spec.pbs.job_id = here_->job_id;
  spec.pbs.here = -1;
  for (size_t i = 0; i < spec.hosts.size(); ++i)
    if (spec.hosts[i].name == here_->node_name) spec.pbs.here = static_cast<int>(i);
  spec.pbs.tools = cluster::pbs::find_tools(facts_.getenv, facts_.find_program, facts_.read_file);
  // A task that pbs_tmrsh starts has none of them, and the user is the same on every node.
  for (const char* name : {"USER", "LOGNAME"})
    if (const std::string* value = facts_.environment.find(name)) spec.description.environment.set(name, *value);
  if (spec.pbs.tools == cluster::pbs::Tools())
    note(
        LogLevel::kWarning,
        "there is neither pbs_tmrsh nor pbs_attach, on PATH or where PBS is: nodes are reached over plain ssh, and PBS "
        "does not know of what runs there");
}

}  // namespace muster::cli
