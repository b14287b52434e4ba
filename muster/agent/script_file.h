#pragma once

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::agent {

// The file of a script that travelled with the job (Command::script): made on each node before its first worker starts,
// for this user alone, in a directory of its own. Nothing to do for other jobs.
Result<void> write_script(const job::Command& command);
// When no worker is left. Once more does no harm.
void remove_script(const job::Command& command);

}  // namespace muster::agent
