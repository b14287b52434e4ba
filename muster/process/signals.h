#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/fd.h"
#include "muster/base/result.h"

namespace muster::process {

// "SIGTERM" for 15; "SIGRTMIN+2" for real-time ones; "signal 77" for what has no name.
std::string signal_name(int number);
// "SIGTERM", "TERM", "sigterm" and "15" give 15.
std::optional<int> parse_signal(std::string_view text);

// A received signal.
struct Received {
  int signal;
  int sender;         // pid; 0: unknown
  bool from_process;  // sent by kill() or the like, not by the kernel (a terminal's Ctrl-C, SIGCHLD …)
};

// Blocks the signals in this thread and delivers them through a descriptor instead. Children must not inherit the
// mask: spawn() resets it.
class SignalQueue {
 public:
  static Result<SignalQueue> open(const std::vector<int>& signals);
  int fd() const { return fd_.get(); }
  // The next signal, if any. Never blocks.
  std::optional<Received> next();

 private:
  explicit SignalQueue(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace muster::process
