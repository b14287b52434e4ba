#pragma once

#include <string>

namespace muster {

// Who is at fault decides the exit code and the words around the message.
enum class ErrorKind {
  kUsage,          // the user's input; nothing was started (exit code 2)
  kNotFound,       // the program to run does not exist (127)
  kNotExecutable,  // it exists and cannot be executed (126)
  kTimeout,        // a deadline passed
  kPeer,           // the other side closed, reset or broke the protocol
  kInterrupted,    // a signal asked us to end (128 + signal)
  kSystem,         // a system call failed; the message names it and errno's text
};

// An expected failure: one sentence, and, where there is one, the way out.
struct Error {
  ErrorKind kind;
  std::string message;
  std::string hint;  // "use …", without a final full stop; may be empty
  int signal = 0;    // of kInterrupted

  // "message; hint" as the command line prints it: one line, whatever somebody else's words are in it.
  std::string text() const;
};

inline constexpr int kMusterFailed = 125;  // exit code: muster itself failed, neither the user nor a worker

// Exit code of `muster` for an error that ends it.
int exit_code(const Error& error);

// "<what>: <strerror(errno_value)>"
Error system_error(int errno_value, std::string what);

// The same for a process or thread that could not be made: EAGAIN is a limit of their number.
Error no_process_error(int errno_value, std::string what);

// A broken invariant: prints where and why with a backtrace, then aborts. Never reachable by user input.
[[noreturn]] void panic(const char* file, int line, const char* what);

}  // namespace muster

#define MUSTER_CHECK(condition)                        \
  do {                                                 \
    if (!(condition)) [[unlikely]]                     \
      ::muster::panic(__FILE__, __LINE__, #condition); \
  } while (false)
