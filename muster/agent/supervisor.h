#pragma once

#include <vector>

#include "muster/agent/job.h"
#include "muster/agent/scratch_note.h"
#include "muster/base/result.h"

namespace muster::agent {

// Runs the job on this node to its end: rounds of workers, restarts, signals, the report. Call it in the agent process
// (see warden.h). Blocks until nothing of the job is left; returns muster's exit code.
//
//   starting ── all workers spawned ─────────────▶ running
//   starting ── a spawn failed, or a signal ─────▶ stopping
//   running  ── a worker failed, or a signal ────▶ stopping   SIGTERM (or that signal) to every group, the grace,
//   SIGKILL running  ── the last worker exited with 0 ───▶ draining stopping ── the last worker is gone, a worker had
//   failed, restarts remain, no signal ──▶ starting (the next round) stopping ── the last worker is gone, otherwise ──▶
//   draining draining ── the console has caught up, or a signal ──▶ the report, the exit code
//
// A round ends only when every process that its workers started is gone too. The warden's end ends everything, in
// every state.
// `scratch` is told of the directory that is to go even if this process is killed.
int run_job(const JobSpec& job, int warden_pid, int warden_pidfd, ScratchNote& scratch);

// CPUs of each worker; empty when no binding was asked for. Opens hwloc and NVML where it was.
Result<std::vector<std::vector<int>>> cpus_of_workers(const JobSpec& job);

}  // namespace muster::agent
