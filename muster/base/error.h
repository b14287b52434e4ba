#pragma once

#include <string>

namespace muster {

// The kind of an error decides the exit code and the words around the message.
enum class ErrorKind {
  kUsage,          // the user's input; nothing was started (exit code 2)
  kNotFound,       // the program to run does not exist (127)
  kNotExecutable,  // it exists but cannot be executed (126)
  kTimeout,        // a deadline passed
  kPeer,           // the other side closed, reset or broke the protocol
  kInterrupted,    // a signal asked muster to end (128 + signal)
  kSystem,         // a system call failed; the message names it and errno's text
};

// An expected failure: one sentence and, if there is one, a hint what to do.
struct Error {
  ErrorKind kind;
  std::string message;
  std::string hint;  // "use …", without a final full stop; may be empty
  int signal = 0;    // for kInterrupted

  // "message; hint" as the command line prints it: always one line, because foreign text in it is escaped.
  std::string text() const;
};

inline constexpr int kMusterFailed = 125;  // exit code: muster itself failed, not the user or a worker

// Exit code of `muster` for an error that ends it.
int exit_code(const Error& error);

// "<what>: <strerror(errno_value)>"
Error system_error(int errno_value, std::string what);

// The same for a process or thread that could not be started: EAGAIN means that a limit was reached.
Error no_process_error(int errno_value, std::string what);

// A broken invariant: prints where and why with a backtrace, then aborts. Never reachable by user input.
[[noreturn]] void panic(const char* file, int line, const char* what);

}  // namespace muster

#define MUSTER_CHECK(condition)                        \
  do {                                                 \
    if (!(condition)) [[unlikely]]                     \
      ::muster::panic(__FILE__, __LINE__, #condition); \
  } while (false)
