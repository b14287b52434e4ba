#pragma once

#include <string_view>

#include "muster/process/spawn.h"

namespace muster::plan {

// The secret of nodes that each run their own muster. No worker, and no other machine, is given it.
inline constexpr std::string_view kTokenVariable = "MUSTER_TOKEN";

// All pure.

Environment without_token(Environment environment);

// What the launcher sends to agents on other machines: its environment but for what belongs to a machine or a session
// there (HOME, TMPDIR, SSH_CONNECTION, DISPLAY …).
Environment environment_to_send(const Environment& launcher);

// Of the variables that choose devices (CUDA_VISIBLE_DEVICES …) those that the user has set: the value is not what the
// scheduler gave to the first process of the job.
Environment devices_set_since(const Environment& launcher, const Environment& first);

// The same by Slurm's other variables, if the first process is not known. Slurm counts devices from 0 if it hides the
// others' devices, so that a value of the right length is a guess.
struct DevicesInSlurm {
  Environment chosen;   // by the user
  Environment guessed;  // taken for Slurm's by their number alone
};
DevicesInSlurm devices_beside_slurm(const Environment& launcher);

// What an agent works with: what it was sent, and of its own what the launcher leaves to every machine.
Environment environment_of_node(const Environment& sent, const Environment& own);

// The same where a scheduler has started the agent on the machine `host`: what it has set for this node (SLURM_NODEID,
// PBS_NODENUM, CUDA_VISIBLE_DEVICES …) goes before what the launcher's node has. HOSTNAME is asked for, since srun hands
// on the one of the node that it was called on; SLURM_NODEID and SLURM_PROCID are its `position` in the job, since srun
// counts anew where it starts but some of the nodes.
Environment environment_of_task(Environment sent, Environment own, const std::string& host, int position);

}  // namespace muster::plan
