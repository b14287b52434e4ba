#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/environment/captured.h"
#include "muster/environment/setup.h"
#include "muster/process/exit_status.h"

namespace muster::environment {

// Explains why the set-up failed: the line as the user wrote it, and what happened. `line_of` reads a line of a file
// (empty: it cannot). Pure except for `line_of`.
using LineOf = std::function<std::string(const std::string& file, int line)>;
Error explain_failure(const std::vector<Step>& steps, const Captured& captured, const process::ExitStatus& status,
                      const LineOf& line_of);

}  // namespace muster::environment
