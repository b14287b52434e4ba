#pragma once

#include <sys/types.h>
#include <termios.h>

namespace muster::process {

// The user's terminal: the first of stdin, stdout and stderr that is one, with the settings that it has when this
// object is made. A worker that has the terminal as its stdin changes them (readline switches the echo off at a prompt)
// and, if it is killed, does not change them back.
class Terminal {
 public:
  // `owner` is the process that the user started: settings are remembered, and restored, only while its process group
  // is in the foreground. In the background the settings are those of the shell's own prompt. Nothing is remembered if
  // stdout or stderr is a pipe: a pager that reads it has settings of its own, in the same process group.
  explicit Terminal(pid_t owner);

  // Sets what was remembered. Does nothing if there is no terminal, or if another process group has it now. Does not
  // block, and does not stop this process by SIGTTOU.
  void restore() const;

 private:
  bool in_foreground() const;

  int fd_ = -1;
  pid_t group_ = 0;
  pid_t session_ = 0;
  termios settings_{};
};

}  // namespace muster::process
