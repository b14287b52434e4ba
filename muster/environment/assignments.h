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

// Reads variables as users write them. All pure.

// NAME=VALUE, or NAME alone: then the value is the one that NAME has in this process.
using Assignment = std::pair<std::string, std::optional<std::string>>;
using Assignments = std::vector<Assignment>;

Result<Assignment> parse_assignment(std::string_view word);

// A file with one variable per line:
//   # a comment, also after a value
//   NAME=some text              blanks around the value are dropped
//   export NAME="a \"b\" \n c"  \n \t \r \\ \" \$ are escapes; may have several lines
//   NAME='as it is'             may have several lines
//   NAME
// Nothing is expanded, because no shell reads the file. Errors name the line.
Result<Assignments> parse_env_file(std::string_view text);

// Gives names without a value their value; drops those that are not set. The last value of a name wins.
Environment fill_in(const Assignments& assignments, const GetEnv& getenv);

}  // namespace muster::environment
