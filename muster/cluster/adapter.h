#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cluster/hosts.h"

namespace muster::cluster {

// What was looked at to find out where we are: shown by `muster where`.
struct Clue {
  std::string name;     // "SLURM_STEP_ID"
  std::string value;    // "4294967290"
  std::string meaning;  // "an interactive step: as in a batch script"
  bool operator==(const Clue&) const = default;
};

// Who knows where this process is.
enum class Adapter { kSlurm, kPbs, kPreset, kWorker };
std::string_view adapter_name(Adapter adapter);    // "slurm", "pbs", "preset", "worker"
std::string_view scheduler_name(Adapter adapter);  // as people say it: "Slurm", "PBS"; else "the environment"

// What this process is to the job around it.
enum class Role {
  kHead,     // the batch script, or a shell in an allocation: the nodes are started from here
  kTask,     // one task of a step on several nodes: every node runs its own muster
  kOneNode,  // of a step that has one node, in an allocation that may have more
  kPreset,   // no scheduler, but somebody wrote down what a torchrun on this node needs: PET_*, MASTER_ADDR …
  kWorker,   // inside a worker of muster, torchrun or another launcher: the allocation is that job's, not ours
};

// Where this process is, as one adapter understands it.
struct Surroundings {
  Adapter adapter = Adapter::kPreset;
  Role role = Role::kHead;
  std::string what;  // in words: "batch script of Slurm job 12 (train) on 2 nodes"
  std::vector<Clue> clues;
  std::string job_id, job_name;
  std::string step_id;      // of a kTask, kOneNode; several steps of one job do not collide
  std::vector<Host> nodes;  // of the allocation, or of the step where there is one; in the scheduler's order, each once
  int allocated = 0;        // how many nodes the whole allocation has
  int components = 1;       // of a heterogeneous job of Slurm
  std::vector<Host> allocation;                 // those, where `nodes` are fewer
  std::optional<int> node_rank;                 // of this node among `nodes`
  std::string node_name;                        // what the scheduler calls this node
  int tasks_here = 1, local_task = 0;           // of the step on this node, and which of them this is
  int slots = 0;                                // of a PBS job: lines of its nodefile
  bool gpus_bound_to_tasks = false;             // each task sees only its own
  std::vector<int> bound_cpus;                  // where each task here has CPUs of its own: those of all of them
  bool terminal = false;                        // of a kTask: a shell (srun --pty) that runs on this node alone
  std::string master_addr;                      // kPreset
  std::optional<int> master_port, world_nodes;  // kPreset
};

using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// Asks every adapter in turn; the first that finds itself answers. Nothing: no scheduler, no preset. An error: there is
// one, and what it says makes no sense (a nodefile that is not there). Pure but for `read_file`.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file);

// The job of Slurm or PBS around this process, as squeue and qstat show it: "4711", "4711_3" of an array, "12[3]".
// Empty: none. Pure.
std::string scheduler_job(const GetEnv& getenv);

// How long the scheduler will let the job run from now on; nothing: without limit. Asks its commands (squeue, qstat),
// and gives up at the deadline.
Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline);

// Where the scheduler itself reaches a node, whatever a resolver makes of its name. Asks its commands, likewise.
Result<std::string> node_address(Adapter adapter, const std::string& node, Deadline deadline);

}  // namespace muster::cluster
