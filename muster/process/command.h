#pragma once

#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/process/spawn.h"

namespace muster::process {

// The result of a small program: squeue, qstat, nvidia-smi …
struct CommandOutput {
  ExitStatus status;
  std::string output, errors;  // at most 1 MiB each; the rest is read and dropped
};

// Blocks until the command has ended, or kills its whole group at the deadline (kTimeout). argv[0] is looked up on the
// PATH of `environment`. A command that fails is not an error here. Does not wait for processes that it left with the
// pipes.
Result<CommandOutput> run_command(std::vector<std::string> argv, Environment environment, Deadline deadline);

// The same for commands of a node's set-up. The command and everything that it started are killed if this process dies,
// if SIGINT or SIGTERM interrupts it (kInterrupted; only without a launcher), or if `launcher`, a descriptor, hangs up
// (kPeer); -1: there is no launcher.
Result<CommandOutput> run_kept_command(const std::vector<std::string>& argv, const Environment& environment,
                                       Deadline deadline, int launcher);

// The last line that is not blank, which usually says what is wrong.
std::string last_line(const std::string& text);

}  // namespace muster::process
