#include "muster/process/terminal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "muster/process/proc.h"

namespace muster::process {

namespace {

bool goes_to_a_process(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

}  // namespace

Terminal::Terminal(pid_t owner) : group_(::getpgid(owner)), session_(::getsid(owner)) {
  if (!in_foreground() || goes_to_a_process(STDOUT_FILENO) || goes_to_a_process(STDERR_FILENO)) return;
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::tcgetattr(fd, &settings_) != 0) continue;
    fd_ = fd;
    return;
  }
}

// Asks /proc, not tcgetpgrp(): the agent is in another session, and must know it even when the owner is gone. A session
// without a terminal of its own cannot be in the background of one.
bool Terminal::in_foreground() const {
  const auto leader = read_proc_stat(session_);
  return !leader || leader->foreground <= 0 || leader->foreground == group_;
}

void Terminal::restore() const {
  if (fd_ < 0 || !in_foreground()) return;
  // The foreground may change after we looked: a blocked SIGTTOU does not stop this process.
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  ::tcsetattr(fd_, TCSANOW, &settings_);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace muster::process
