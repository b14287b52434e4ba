#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "muster/base/log.h"

namespace muster::cli {

// A message as torch's launcher logs it: `W1115 07:32:32.552000 4711 muster] text`, every line of it, local time.
std::string torch_log_lines(LogLevel level, std::chrono::system_clock::time_point now, int pid, std::string_view text);

}  // namespace muster::cli
