#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::cli {

enum class Shell { kBash, kZsh, kFish };
std::optional<Shell> parse_shell(std::string_view name);

// A completion script from the tables of verbs and options; it also completes torchrun where that is our link.
std::string completion_script(Shell shell);

}  // namespace muster::cli
