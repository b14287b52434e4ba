#pragma once

#include "muster/agent/scratch_note.h"
#include "muster/job/spec.h"

namespace muster::agent {

// What processes that were killed leave behind: containers, a script that the job brought along, and the empty part of
// the temporary directory. Call it when
// no process of the job is left on this node. Blocks for seconds at most.
void remove_traces(const job::JobSpec& job, const ScratchNote& scratch);

// The containers alone.
void remove_containers(const job::JobSpec& job);

}  // namespace muster::agent
