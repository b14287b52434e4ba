#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::cluster {

// Why there is no agent on a node.
enum class StartCause {
  kNoSuchHost,    // its name cannot be resolved
  kUnreachable,   // connection refused, no route, the machine is booting
  kTimedOut,      // no answer in time
  kLost,          // the connection to the agent, or what led to it, ended
  kHostKey,       // the key of the host is unknown or has changed
  kPermission,    // the login was refused
  kThisMachine,   // the command that starts agents is missing here, or used wrongly
  kProgram,       // muster is not there, cannot be sent, or does not run
  kOtherVersion,  // another muster is there, and ours may not be sent
  kScheduler,     // the scheduler refused, or could not start the agent
  kAgentEnded,    // the agent ran and ended
};

struct StartFailure {
  StartCause cause = StartCause::kAgentEnded;
  // For people. kNotFound and kNotExecutable: what the job is to run is missing or not executable; kUsage: the job cannot
  // run as it was asked for. The exit code of a job that ends for this follows from the kind.
  Error why{ErrorKind::kPeer, {}, {}};
  bool may_try_again = false;  // false: another attempt would certainly fail in the same way
};

// What a command that starts agents (ssh, srun) means by a line on its stderr.
struct Meaning {
  std::string_view pattern;
  StartCause cause;
  std::string_view text;  // empty: the line itself
  bool may_try_again;
  std::string_view hint;
};
// By the first of the meanings whose pattern is in `said`; nothing: none is. `shorten` makes a text of a line. Pure.
std::optional<StartFailure> find_meaning(std::span<const Meaning> meanings, std::string_view said,
                                         std::string (*shorten)(std::string_view line));

}  // namespace muster::cluster
