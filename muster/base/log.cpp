#include "muster/base/log.h"

#include <unistd.h>

namespace muster {

Log::Log(Sink sink, LogLevel threshold) : sink_(std::move(sink)), threshold_(threshold) {}

Log Log::to_stderr(LogLevel threshold) {
  return Log(
      [](LogLevel level, std::string_view text) {
        // One write: a line never mixes with another process's.
        std::string line = fmt::format("{}{}\n", log_prefix(level), text);
        [[maybe_unused]] ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
      },
      threshold);
}

std::string_view log_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "muster: debug: ";
    case LogLevel::kInfo:
      return "muster: ";
    case LogLevel::kWarning:
      return "muster: warning: ";
    case LogLevel::kError:
      return "muster: error: ";
  }
  return "muster: ";
}

}  // namespace muster
