#pragma once

#include <string>
#include <string_view>

#include "muster/container/commands.h"

namespace muster::container {

// The error for a runtime that failed: host, what failed, the runtime's own message, what to do.
// `what`: "podman cannot run workers in torch:2". Pure.
Error failure(const std::string& host, const std::string& what, std::string_view errors, const Words& command);

// The last lines of a program's output, joined to one line, without control characters.
std::string last_words(std::string_view text);

}  // namespace muster::container
