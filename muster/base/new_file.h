#pragma once

#include <string>

#include "muster/base/result.h"

namespace muster {

// Creates a new file atomically: it appears with the whole text, or never. Written under another name, then renamed.
Result<void> write_new_file(const std::string& path, const std::string& text);

}  // namespace muster
