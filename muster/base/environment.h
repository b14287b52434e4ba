#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster {

// How code that tests want to steer asks for a variable; nothing when it is unset.
using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

// A variable of this process.
std::optional<std::string> environment_variable(const std::string& name);

// Where temporary files go: $TMPDIR, else /tmp.
std::string temporary_directory();

}  // namespace muster
