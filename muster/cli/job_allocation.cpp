#include "muster/cli/job_planner.h"

// Nodes that a scheduler has given us.
namespace muster::cli {}  // namespace muster::cli
