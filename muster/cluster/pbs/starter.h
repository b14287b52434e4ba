#pragma once

#include <string>

#include "muster/cluster/ssh/starter.h"
#include "muster/cluster/starter.h"

namespace muster::cluster::pbs {

// The program must be under the same path on every node for pbs_tmrsh.
struct Options : StartOptions {
  Duration answer_timeout = std::chrono::seconds(60);  // until an agent has asked for its description
};

// One agent a node, each of which ends with the job:
//   here                pbs_tmrsh would do as well, but a child of ours says on its stderr what is wrong, and sees the
//                       script's own PBS_ variables. It ends when we do, and PBS ends us.
//   pbs_tmrsh HOST …    a task of the job. It forwards no stdin, so the agent asks for its description; what the agent
//                       writes goes to the job's error file; killing pbs_tmrsh ends no agent, losing us does.
//   ssh HOST pbs_attach -j JOB …   as over ssh, but PBS knows of it.
//   ssh HOST …          PBS does not know of it: the agent ends because it loses us.
std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const Options& options, Environment environment,
                                      Starter::Handlers handlers);

// The script's environment as another node should have it: what PBS says of a node is that node's. Pure.
void move_to_node(Environment& environment, int node_rank);

// Why pbs_tmrsh has ended before the agent joined, by its exit code and last line on stderr. Pure.
StartFailure explain_tmrsh(const process::ExitStatus& status, std::string_view last_line, const std::string& program);

// The same for pbs_attach over ssh: nothing if it was not pbs_attach that failed. kProgram: the program behind it. Pure.
std::optional<StartFailure> explain_attach(int exit_code, const std::string& errors);

}  // namespace muster::cluster::pbs
