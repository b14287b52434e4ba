#pragma once

#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/process/spawn.h"

namespace muster::process {

// What a small program said: squeue, qstat, nvidia-smi …
struct CommandOutput {
  ExitStatus status;
  std::string output, errors;  // at most 1 MiB each; the rest is read and dropped
};

// Blocks until the command has ended, or kills its whole group at the deadline (kTimeout). argv[0] is looked up on the
// PATH of `environment`. A command that fails is no error here. What it left behind with our pipes is not waited for.
Result<CommandOutput> run_command(std::vector<std::string> argv, Environment environment, Deadline deadline);

// The same for what a node's set-up runs: it and all that it started are killed when this process is gone, when SIGINT
// or SIGTERM interrupts it (kInterrupted; only where there is no launcher), or when `launcher`, a descriptor, hangs up
// (kPeer); -1: there is none.
Result<CommandOutput> run_kept_command(const std::vector<std::string>& argv, const Environment& environment,
                                       Deadline deadline, int launcher);

// The last line that is not blank: where programs say what is wrong.
std::string last_line(const std::string& text);

}  // namespace muster::process
