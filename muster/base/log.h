#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// What muster itself says, one line a call, without a trailing newline: what others wrote in it is escaped. Whoever
// owns the terminal supplies the sink, so that our lines never cut through a worker's. Passed by reference; there is no
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

// "muster: ", "muster: warning: ", "muster: error: ": the one voice.
std::string_view log_prefix(LogLevel level);

}  // namespace muster
