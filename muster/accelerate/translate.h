#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/accelerate/command_line.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::accelerate {

// What the translation depends on besides the command line.
struct Machine {
  Environment environment;       // in its order
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
  std::function<bool(int port)> port_is_free;
};

// `accelerate launch` in the words of `muster run`.
struct Launch {
  std::vector<std::string> arguments;  // of `muster run`, with the program
  Environment environment;             // for every worker, over what it inherits
  // One process without RANK, WORLD_SIZE and all else of torchrun's, as accelerate starts one: Accelerator() would take
  // part in a group of one otherwise.
  bool ranked = true;
  std::optional<int> processes;  // of all machines together: the first ones get the remainder
  bool uneven = false;           // and nobody knows yet which machine this is
  std::vector<std::string> notes;
};

// The settings must be complete: a config file has been laid under them. Errors name accelerate's flags.
Result<Launch> translate(const CommandLine& line, const Machine& machine);

// How many of `processes` run on machine `rank` of `machines`.
int share_of(int processes, int machines, int rank);

// A sentence of `muster run` with accelerate's names for the options it mentions.
std::string in_its_words(std::string text);

}  // namespace muster::accelerate
