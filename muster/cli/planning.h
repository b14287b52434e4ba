#pragma once

#include <functional>

#include "muster/cli/facts.h"
#include "muster/plan/plan.h"

namespace muster::cli {

// How a node is set up and planned.
struct Planning {
  const plan::Assignment* agent = nullptr;
  int launcher = -1;  // hangs up when the launcher of this node is gone; -1: no launcher started it
  std::function<plan::Answer(const plan::Question&)> answer = cli::answer;
};

// plan() with all that it needs: its questions are answered, the node is set up and a container made ready if the plan
// says so, and this process may open as many descriptors as the job needs. From then on this process has the environment
// that the set-up left.
Result<plan::JobPlan> make_plan(const job::Request& request, plan::Facts& facts, const Planning& planning = {});

}  // namespace muster::cli
