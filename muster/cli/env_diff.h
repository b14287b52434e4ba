#pragma once

#include <functional>
#include <string_view>

#include "muster/job/spec.h"
#include "muster/launcher/fan_out.h"

// `muster run --env-diff`: every node runs, as its one worker, this program with kFingerprintWord, which says what a
// worker would find there; the launcher compares.
namespace muster::cli {

inline constexpr std::string_view kFingerprintWord = "node-fingerprint";  // of no use to people

int fingerprint_command();
// Makes that program the job's, on the node of an agent. The key of the secrets' hashes follows from the job's token.
void run_fingerprint(job::JobSpec& job);

// `run` starts the nodes and returns muster's exit code. Prints where they differ; 0: nowhere, 1: somewhere, as diff
// does.
int env_diff(launcher::FanOut& spec, const std::function<int()>& run, bool json);
// The same for a job of this node alone.
int env_diff_alone(const job::JobSpec& job, bool json);

}  // namespace muster::cli
