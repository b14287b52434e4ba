#pragma once

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster {

template <typename... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...), {}};
}

}  // namespace muster
