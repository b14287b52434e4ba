#include "muster/base/error.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "muster/base/printable.h"

namespace muster {

std::string Error::text() const { return escaped(hint.empty() ? message : message + "; " + hint); }

int exit_code(const Error& error) {
  constexpr int kSignalBase = 128;
  switch (error.kind) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kNotFound:
      return 127;
    case ErrorKind::kNotExecutable:
      return 126;
    case ErrorKind::kInterrupted:
      return kSignalBase + error.signal;
    case ErrorKind::kTimeout:
    case ErrorKind::kPeer:
    case ErrorKind::kSystem:
      break;
  }
  return kMusterFailed;
}

Error system_error(int errno_value, std::string what) {
  return {ErrorKind::kSystem, fmt::format("{}: {}", what, std::strerror(errno_value)), {}};
}

Error no_process_error(int errno_value, std::string what) {
  Error error = system_error(errno_value, std::move(what));
  if (errno_value == EAGAIN)
    error.hint = "the limit of processes and threads is reached: raise ulimit -u, or pids.max of the cgroup";
  return error;
}

void panic(const char* file, int line, const char* what) {
  std::fprintf(stderr, "muster: internal error at %s:%d: %s\n", file, line, what);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::abort();
}

}  // namespace muster
