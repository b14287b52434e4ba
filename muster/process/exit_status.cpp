#include "muster/process/exit_status.h"

#include <fmt/format.h>

#include "muster/process/signals.h"

namespace muster::process {

std::string ExitStatus::text() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  return fmt::format("{} (signal {})", signal_name(signal), signal);
}

}  // namespace muster::process
