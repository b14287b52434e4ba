#include "muster/base/log.h"

#include <unistd.h>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster {

Log::Log(Sink sink, LogLevel threshold) : sink_(std::move(sink)), threshold_(threshold) {}

void Log::tell(LogLevel level, std::string_view text) {
  std::vector<std::string> lines;  // torchrun has messages of several
  for (std::string_view line : split(text, '\n')) lines.push_back(escaped(line));
  sink_(level, join(lines, "\n"));
}

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
