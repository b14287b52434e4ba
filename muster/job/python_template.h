#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster::job {

// Python's string.Template(text).safe_substitute(): "$name" and "${name}" become what `value_of` gives for the name,
// "$$" becomes "$"; a name without a value and whatever else a "$" stands before stay as they are. Pure.
std::string safe_substitute(std::string_view text,
                            const std::function<std::optional<std::string>(std::string_view name)>& value_of);

}  // namespace muster::job
