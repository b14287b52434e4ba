#pragma once

#include <string>

#include "muster/base/result.h"

namespace muster {

// A file of a name that nobody has yet: it appears with all of the text, or never. Written beside it, then renamed.
Result<void> write_new_file(const std::string& path, const std::string& text);

}  // namespace muster
