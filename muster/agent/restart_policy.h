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

}  // namespace muster::agent
