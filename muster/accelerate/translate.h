#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/job/request.h"

namespace muster::accelerate {

// What the translation depends on besides the settings.
struct Machine {
  Environment environment;
  int gpus = 0;                  // that this process was given
  std::string visible_variable;  // that hides them from a worker; empty: CUDA_VISIBLE_DEVICES
  bool peer_access = true;       // false: GPUs whose driver has none, and NCCL must be told
  int cores = 1;                 // physical ones that may be used
  std::optional<int> machines;   // of the scheduler's allocation or step
  std::optional<int> rank;       // of this one among them, where each runs its own muster
  std::string scheduler;         // "Slurm": who says so
  bool agent = false;            // a part of a job that was started elsewhere: where the machines are is known there
  std::optional<int> workers;    // the launcher's word for this part
  std::string directory;         // the current one
};

struct Launch {
  bool uneven = false;  // the processes cannot be shared out evenly, and nobody knows yet which machine this is
  std::vector<std::string> notes;
};

// Adds what the settings ask for to a request that has the program and muster's own options. They must be complete: a
// config file has been laid under them. Errors name accelerate's flags.
Result<Launch> translate(const Settings& settings, const Machine& machine, job::Request& request);

// On the node of an agent: the request of the launcher, with what follows from this machine.
Result<void> complete(job::Request& request, const Machine& machine);

// Options that `torchrun` has too, and that mean the same: to be read as `muster run` reads them.
std::vector<std::string> torchrun_words(const Settings& settings);

// How many of `processes` run on machine `rank` of `machines`.
int share_of(int processes, int machines, int rank);

// A sentence of `muster run` with accelerate's names for the options it mentions.
std::string in_its_words(std::string text);

}  // namespace muster::accelerate
