#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/starter.h"

namespace muster::cluster::slurm {

struct Options : StartOptions {
  std::string srun = "srun", scontrol = "scontrol";    // looked up through PATH
  Duration answer_timeout = std::chrono::seconds(60);  // until an agent has asked for its description
};

// One agent a node, as a step of the job, with all that the job has on that node. All starts of one turn of the loop are
// one srun, or one for each kind of node where the nodes have unlike GPUs (step.h). It is in a session of its own, so that
// no signal of the terminal reaches it, and ends when we do; the agents end because they lose us.
//
// A node where the program is not found gets it from srun (--bcast), once, in a file that is removed as soon as it runs.
// A start may be tried again when the failure may pass. srun waits for ever for a node that is taken: we do not.
std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, const Environment& environment,
                                      Starter::Handlers handlers);

}  // namespace muster::cluster::slurm
