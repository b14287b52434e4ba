#pragma once

#include <string>
#include <string_view>

#include "muster/container/commands.h"

// Helpers for the files of all runtimes.
namespace muster::container {

// The PATH for an image that does not set one.
inline constexpr const char* kImagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Whether a variable of the node has no meaning, or another meaning, inside the container.
bool belongs_outside(std::string_view name);

// Whether a variable is the worker's own: part of the contract, or given by the user. It overrides the image.
bool is_workers_own(const Plan& plan, const Worker& worker, const Environment::Variable& variable);

// Whether a variable goes inside. The worker's own always do; others do unless the image sets them or
// belongs_outside().
bool goes_inside(const Plan& plan, const Worker& worker, const Environment::Variable& variable);

// Whether a container's name may contain the character.
bool is_name_character(char c);
// Separates a container's name from the name of the node that makes it.
inline constexpr std::string_view kMaking = ".making.";

// Whether every shell and runtime accepts the name.
bool is_plain_name(std::string_view name);

void append(Words& words, const Words& more);

}  // namespace muster::container
