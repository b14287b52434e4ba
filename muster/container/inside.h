#pragma once

#include <string>
#include <string_view>

#include "muster/container/commands.h"

// What the runtimes' files share.
namespace muster::container {

// The PATH of an image that sets none.
inline constexpr const char* kImagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Means something on the node and nothing, or something else, inside.
bool belongs_outside(std::string_view name);

// The worker's own: part of the contract, or given expressly. Wins over the image.
bool is_workers_own(const Plan& plan, const Worker& worker, const Environment::Variable& variable);

// Whether a variable goes inside: the worker's own always; the node's unless the image sets it or it belongs outside.
bool goes_inside(const Plan& plan, const Worker& worker, const Environment::Variable& variable);

// One of those that a container's name may have.
bool is_name_character(char c);
// Stands between a container's name and that of the node that is making it.
inline constexpr std::string_view kMaking = ".making.";

// A name that every shell and runtime takes.
bool is_plain_name(std::string_view name);

void append(Words& words, const Words& more);

}  // namespace muster::container
