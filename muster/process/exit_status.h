#pragma once

#include <string>
#include <string_view>

namespace muster::process {

// How a process ended: an exit code, or the signal that killed it.
struct ExitStatus {
  int code = 0;    // meaningful when signal == 0
  int signal = 0;  // 0: it exited by itself

  bool success() const { return code == 0 && signal == 0; }
  // As a shell reports it: the code, or 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : code; }
  // As Python's Popen does: the code, or -signal.
  int popen_code() const { return signal != 0 ? -signal : code; }
  // "exit code 7", "SIGKILL (signal 9)"
  std::string text() const;
  bool operator==(const ExitStatus&) const = default;
};

}  // namespace muster::process
