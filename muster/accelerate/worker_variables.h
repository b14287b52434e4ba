#pragma once

#include "muster/accelerate/translate.h"

namespace muster::accelerate {

// The kind of workers, which decides about their environment.
enum class Way : uint8_t {
  kPlain,      // one process, unranked
  kRanked,     // torchrun's way: multi-GPU, FSDP, Megatron-LM
  kCpu,        // ranked, and on the CPU
  kDeepspeed,  // ranked, with DeepSpeed's variables instead of torch.compile's
};

// The variables that accelerate adds to a worker's environment on this machine, which runs `processes_here` of the
// job's processes.
Result<Environment> worker_variables(const Settings& settings, Way way, int processes_here, const Machine& machine);

}  // namespace muster::accelerate
