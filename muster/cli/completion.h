#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::cli {

enum class Shell { kBash, kZsh, kFish };
std::optional<Shell> parse_shell(std::string_view name);

// A completion script for `command`: muster, or torchrun if that is a link to muster. Made from the tables of verbs and
// options.
std::string completion_script(Shell shell, std::string_view command = "muster");

}  // namespace muster::cli
