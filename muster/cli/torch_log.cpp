#include "muster/cli/torch_log.h"

#include <ctime>

#include "muster/base/strings.h"

namespace muster::cli {

std::string torch_log_lines(LogLevel level, std::chrono::system_clock::time_point now, int pid, std::string_view text) {
  constexpr std::string_view kLetters = "DIWE";
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto fraction = now.time_since_epoch() % std::chrono::seconds(1);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(fraction).count();
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const std::string prefix =
      fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:03}000 {} muster] ", kLetters[static_cast<size_t>(level)],
                  local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, millis, pid);
  std::string lines;
  for (std::string_view line : split(text, '\n')) lines += fmt::format("{}{}\n", prefix, line);
  return lines;
}

}  // namespace muster::cli
