#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/process/spawn.h"

namespace muster::environment {

// Variables as people write them down; all pure.

// NAME=VALUE, or NAME alone: the value is that of the process which reads it.
using Assignment = std::pair<std::string, std::optional<std::string>>;
using Assignments = std::vector<Assignment>;

Result<Assignment> parse_assignment(std::string_view word);

// A file of them, one a line:
//   # a comment, also behind a value
//   NAME=some text              blanks around it are no part of it
//   export NAME="a \"b\" \n c"  \n \t \r \\ \" \$ mean something; may go over several lines
//   NAME='as it is'             may go over several lines
//   NAME
// Nothing is expanded: it is no shell. Errors name the line.
Result<Assignments> parse_env_file(std::string_view text);

// Values for names alone; those that are not set here are left out. The last value of a name wins.
Environment fill_in(const Assignments& assignments, const GetEnv& getenv);

}  // namespace muster::environment
