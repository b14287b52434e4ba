#pragma once

#include <string>
#include <string_view>

#include "muster/container/commands.h"

namespace muster::container {

// A runtime that failed: who, where, its own words, the way out. `what`: "podman cannot run workers in torch:2". Pure.
Error failure(const std::string& host, const std::string& what, std::string_view errors, const Words& command);

// The last lines of what a program said, as one, without its control characters.
std::string last_words(std::string_view text);

}  // namespace muster::container
