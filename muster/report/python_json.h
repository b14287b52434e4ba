#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::report {

using Json = nlohmann::ordered_json;

// As Python's json.dumps writes it: ", " and ": ", everything but ASCII escaped. Not more deeply nested than what
// parse_python_json() lets through.
std::string python_json(const Json& value);

// Untrusted bytes, as Python's json.dumps may write them: lone surrogates (undecodable bytes in a message) become
// U+FFFD. Nesting is limited, so that what is returned can be walked recursively.
Result<Json> parse_python_json(std::string_view text);

}  // namespace muster::report
