#pragma once

#include <string_view>

namespace muster {

std::string_view version();  // "0.1.0"

}  // namespace muster
