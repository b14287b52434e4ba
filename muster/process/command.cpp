#include "muster/process/command.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "muster/base/pipe.h"
#include "muster/base/strings.h"
#include "muster/process/python.h"

namespace muster::process {
namespace {

constexpr size_t kMostOutput = 1 << 20;
constexpr auto kDyingTime = std::chrono::seconds(2);

// What there is for now, but no more than a pipe can hold, lest somebody who never stops writing keeps us here; closes the
// descriptor at its end.
void read_some(Fd& fd, std::string& text) {
  constexpr int kRounds = 128;
  std::array<char, 16384> bytes{};
  for (int round = 0; fd && round < kRounds; ++round) {
    const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
    if (got > 0) {
      text.append(bytes.data(), std::min(static_cast<size_t>(got), kMostOutput - text.size()));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      fd.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::string path_of(const Environment& environment) {
  auto path = std::find_if(environment.begin(), environment.end(), [](const auto& v) { return v.first == "PATH"; });
  return path == environment.end() ? kDefaultPath : path->second;
}

// Who hangs in the kernel (a file system that is gone) does not even die of SIGKILL, and is left behind.
void kill_and_reap(const Child& child) {
  signal_group(child.pid, SIGKILL);
  for (const Deadline deadline = Deadline::in(kDyingTime); !try_reap(child) && !deadline.passed();) {
    pollfd ended{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&ended, 1, deadline.poll_timeout());
  }
}

}  // namespace

Result<CommandOutput> run_command(std::vector<std::string> argv, Environment environment, Deadline deadline) {
  MUSTER_CHECK(!argv.empty());
  MUSTER_TRY(std::string program, find_program(argv.front(), path_of(environment)));
  MUSTER_TRY(Pipe output, make_pipe());
  MUSTER_TRY(Pipe errors, make_pipe());
  const std::string name = argv.front();
  MUSTER_TRY(Child child, spawn({.program = std::move(program),
                                 .argv = std::move(argv),
                                 .environment = std::move(environment),
                                 .stdout_fd = output.write.get(),
                                 .stderr_fd = errors.write.get()}));
  output.write.reset();
  errors.write.reset();
  CommandOutput result;
  for (;;) {
    std::array<pollfd, 3> waiting{{{.fd = output.read.get(), .events = POLLIN, .revents = 0},
                                   {.fd = errors.read.get(), .events = POLLIN, .revents = 0},
                                   {.fd = child.pidfd.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(waiting.data(), waiting.size(), deadline.poll_timeout()) == 0 && deadline.passed()) {
      kill_and_reap(child);
      return Error{ErrorKind::kTimeout, name + " did not answer in time", {}};
    }
    auto status = try_reap(child);
    read_some(output.read, result.output);
    read_some(errors.read, result.errors);
    if (!status) continue;
    result.status = *status;
    return result;
  }
}

std::string last_line(const std::string& text) {
  const std::string_view trimmed = trim(text);
  return std::string(trim(trimmed.substr(trimmed.empty() ? 0 : trimmed.rfind('\n') + 1)));
}

}  // namespace muster::process
