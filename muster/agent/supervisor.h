#pragma once

#include "muster/agent/job.h"
#include "muster/agent/scratch_note.h"

namespace muster::agent {

// Runs the job on this node to its end: rounds of workers, restarts, signals, the report. Call it in the agent process
// (see warden.h). Blocks until nothing of the job is left; returns muster's exit code.
//
//   starting ── all workers spawned ─────────────────────────────────────────▶ running
//   starting ── a spawn failed, or a signal ─────────────────────────────────▶ stopping
//   running  ── a worker failed, or a signal ────────────────────────────────▶ stopping
//   running  ── the last worker exited with 0 ───────────────────────────────▶ draining
//   stopping ── all gone after a failure; a restart is left, no signal came ─▶ starting, the next round
//   stopping ── all gone otherwise ──────────────────────────────────────────▶ draining
//   draining ── the console has caught up, or a signal ──────────────────────▶ the report, the exit code
//
// Stopping is SIGTERM (or the signal that came) to every worker's group, the grace, SIGKILL: see stopper.h.
//
// A round ends only when every process that its workers started is gone too. The warden's end ends everything, in
// every state. `scratch` is told of the directory that is to go even if this process is killed.
int run_job(const JobSpec& job, int warden_pid, int warden_pidfd, ScratchNote& scratch);

}  // namespace muster::agent
