#include "muster/process/terminal.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "muster/process/pty.h"

namespace muster::process {
namespace {

int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// In a child that leads a session on a pseudo-terminal of its own, which is its stdin.
bool holds_on_a_terminal(const std::function<bool()>& statement) {
  auto pty = open_pty(-1);
  if (!pty) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(pty->slave.get(), fd);
    ::ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    ::_exit(statement() ? 0 : 1);
  }
  return exit_code_of(child) == 0;
}

tcflag_t local_flags() {
  termios settings{};
  ::tcgetattr(STDIN_FILENO, &settings);
  return settings.c_lflag;
}

void change() {
  termios settings{};
  ::tcgetattr(STDIN_FILENO, &settings);
  settings.c_lflag ^= ICANON;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &settings);
}

// A process group of its own, with a process that waits for its end; in the foreground.
pid_t take_the_foreground() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ::setpgid(child, child);
  ::tcsetpgrp(STDIN_FILENO, child);
  return child;
}

TEST(Terminal, IsAsItWas) {
  EXPECT_TRUE(holds_on_a_terminal([] {
    const tcflag_t before = local_flags();
    const Terminal terminal(::getpid());
    change();
    const bool changed = local_flags() != before;
    terminal.restore();
    return changed && local_flags() == before;
  }));
}

TEST(Terminal, IsRestoredFromAnotherSession) {
  EXPECT_TRUE(holds_on_a_terminal([] {
    const tcflag_t before = local_flags();
    const pid_t owner = ::getpid();
    const pid_t agent = ::fork();
    if (agent == 0) {
      ::setsid();
      const Terminal terminal(owner);
      change();
      terminal.restore();
      ::_exit(0);
    }
    return exit_code_of(agent) == 0 && local_flags() == before;
  }));
}

TEST(Terminal, IsLeftToTheProcessGroupThatHasItNow) {
  EXPECT_TRUE(holds_on_a_terminal([] {
    const Terminal terminal(::getpid());
    change();
    const tcflag_t changed = local_flags();
    const pid_t other = take_the_foreground();
    terminal.restore();  // neither stops this process nor changes anything
    const bool left = local_flags() == changed;
    ::kill(other, SIGKILL);
    return left;
  }));
}

TEST(Terminal, SettingsOfAShellsPromptAreNotRemembered) {
  EXPECT_TRUE(holds_on_a_terminal([] {
    const pid_t shell = take_the_foreground();
    const Terminal in_background(::getpid());
    ::signal(SIGTTOU, SIG_IGN);
    ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    change();
    const tcflag_t changed = local_flags();
    in_background.restore();
    ::kill(shell, SIGKILL);
    return local_flags() == changed;
  }));
}

TEST(Terminal, IsLeftToAPager) {
  EXPECT_TRUE(holds_on_a_terminal([] {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    ::dup2(ends[1], STDOUT_FILENO);
    const Terminal terminal(::getpid());
    change();
    const tcflag_t changed = local_flags();
    terminal.restore();
    return local_flags() == changed;
  }));
}

TEST(Terminal, ThereMayBeNone) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    Terminal(::getpid()).restore();
    ::_exit(0);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

}  // namespace
}  // namespace muster::process
