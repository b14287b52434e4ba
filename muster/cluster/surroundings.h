#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cluster/hosts.h"

namespace muster::cluster {

class Adapter;

// What was looked at to find out where we are: shown by `muster where`.
struct Clue {
  std::string name;     // "SLURM_STEP_ID"
  std::string value;    // "4294967290"
  std::string meaning;  // "an interactive step: as in a batch script"
  bool operator==(const Clue&) const = default;
};

// What this process is to the job around it.
enum class Role {
  kHead,     // the batch script, or a shell in an allocation: the nodes are started from here
  kTask,     // one task of a step on several nodes: every node runs its own muster
  kOneNode,  // of a step that has one node, in an allocation that may have more
  kPreset,   // no scheduler, but variables that say what a torchrun on this node needs: PET_*, MASTER_ADDR …
  kWorker,   // inside a worker of muster, torchrun or another launcher: the allocation is that job's, not ours
};

// Where this process is, as one adapter understands it. Plain data.
struct Surroundings {
  const Adapter* adapter = nullptr;  // the one that found it; not null in what detect() returns
  Role role = Role::kHead;
  std::string what;  // in words: "batch script of Slurm job 12 (train) on 2 nodes"
  std::vector<Clue> clues;
  std::string job_id, job_name;
  std::string step_id;      // of a kTask, kOneNode; several steps of one job do not collide
  bool in_step = false;     // kTask: the scheduler started the same command on all of `nodes`, and has numbered them
  std::vector<Host> nodes;  // of the allocation, or of the step if there is one; in the scheduler's order, each once
  int allocated = 0;        // how many nodes the whole allocation has
  int components = 1;       // of a heterogeneous job of Slurm
  std::vector<Host> allocation;                 // those, if `nodes` are fewer
  std::optional<int> node_rank;                 // of this node among `nodes`
  std::string node_name;                        // what the scheduler calls this node
  std::string submit_host;                      // of a step: what $HOSTNAME says on every node, the job came from there
  int tasks_here = 1, local_task = 0;           // of the step on this node, and which of them this is
  int slots = 0;                                // of a PBS job: lines of its nodefile
  bool gpus_bound_to_tasks = false;             // each task sees only its own
  std::vector<int> bound_cpus;                  // if each task here has CPUs of its own: those of all of them
  bool terminal = false;                        // of a kTask: a shell (srun --pty) that runs on this node alone
  std::string master_addr;                      // kPreset
  std::optional<int> master_port, world_nodes;  // kPreset
};

using ReadFile = std::function<Result<std::string>(const std::string& path)>;
using FindProgram = std::function<Result<std::string>(const std::string& name)>;  // through PATH, or by its own path

}  // namespace muster::cluster
