#pragma once

#include <string>

namespace muster::agent {

// After a worker failed: start all again, or end? The reason is what the log shows. Pure.
struct RestartDecision {
  bool restart;
  std::string reason;
};
// `stopping`: a signal has asked the job to end.
RestartDecision decide_restart(int restarts_so_far, int max_restarts, bool stopping);

// How a job whose workers are all gone has ended. `failed_first`: a worker had failed before the signal came, and that
// was the end if no restart was left. Pure.
enum class Ending { kSucceeded, kFailed, kSignalled };
Ending ending_of(bool anyone_failed, bool signalled, bool failed_first, bool restarts_left);

}  // namespace muster::agent
