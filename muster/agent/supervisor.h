#pragma once

#include "muster/agent/companion.h"
#include "muster/agent/scratch_note.h"
#include "muster/agent/warden_link.h"
#include "muster/job/spec.h"

namespace muster::agent {

// How an agent that has not joined begins a line on stderr which tells its launcher where it fails to connect.
inline constexpr std::string_view kCannotReach = "muster: cannot reach the launcher: ";
// The same while the node is being set up: what is being done.
inline constexpr std::string_view kSettingUp = "muster: setting up: ";

// What the agent process shares with the rest of the program.
struct AgentContext {
  int warden_pid = 0;
  int warden_pidfd = -1;
  ScratchNote& scratch;                    // told of the directory that is to go even if this process is killed
  WardenLink* link = nullptr;              // to the warden; a member of a job of several nodes needs it
  MakeCompanion make_companion = nullptr;  // what is to live beside the agent
};

// Runs the job's part on this node to its end: rounds of workers (round_runner.h), signals, output. Call it in the agent
// process (see warden.h). Blocks until nothing of the job is left here; returns muster's exit code. The engine decides
// when a round starts, and what follows when it has ended (director.h). When the engine has ended the job, the agent
// waits until the console has caught up, or a signal comes; then follows the director's last word. The warden's end ends
// everything at any time.
int run_job(const job::JobSpec& job, const AgentContext& context);

}  // namespace muster::agent
