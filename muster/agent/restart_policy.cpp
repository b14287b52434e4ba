#include "muster/agent/restart_policy.h"

#include <fmt/format.h>

namespace muster::agent {

RestartDecision decide_restart(int restarts_so_far, int max_restarts, bool stopping) {
  if (stopping) return {false, "a signal asked the job to end"};
  if (max_restarts == 0) return {false, "no restarts were asked for (--max-restarts)"};
  if (restarts_so_far >= max_restarts) return {false, fmt::format("all {} restarts are used", max_restarts)};
  return {true, fmt::format("restart {} of {}", restarts_so_far + 1, max_restarts)};
}

Ending ending_of(bool anyone_failed, bool signalled, bool failed_first, bool restarts_left) {
  if (!signalled) return anyone_failed ? Ending::kFailed : Ending::kSucceeded;
  return failed_first && !restarts_left ? Ending::kFailed : Ending::kSignalled;
}

}  // namespace muster::agent
