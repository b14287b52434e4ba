#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster {

// How code that tests want to steer asks for a variable; nothing when it is unset.
using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

// A variable of this process.
std::optional<std::string> environment_variable(const std::string& name);

// Where temporary files go: $TMPDIR if it is a directory, else /tmp.
std::string temporary_directory();
bool is_directory(const std::string& path);
// What is said of a $TMPDIR that is set and is not a directory.
std::string no_temporary_directory(const std::string& given);

}  // namespace muster
