#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// muster's own messages, one line per call, without a trailing newline. Foreign text in them is escaped. The owner of
// the terminal supplies the sink, so that muster's lines never split a worker's line. Passed by reference; there is no
// global logger.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  // Lines below `threshold` are not even formatted.
  explicit Log(Sink sink, LogLevel threshold = LogLevel::kInfo);
  // "muster: text" on stderr; warnings and errors say so.
  static Log to_stderr(LogLevel threshold = LogLevel::kInfo);

  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kWarning, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kError, format, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void write(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (level >= threshold_) tell(level, fmt::format(format, std::forward<Args>(args)...));
  }
  void tell(LogLevel level, std::string_view text);

  Sink sink_;
  LogLevel threshold_;
};

// "muster: ", "muster: warning: ", "muster: error: ": the prefixes of all messages.
std::string_view log_prefix(LogLevel level);

}  // namespace muster
