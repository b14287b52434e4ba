#include "muster/process/command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "muster/base/bytes.h"
#include "muster/base/pipe.h"
#include "muster/base/strings.h"
#include "muster/process/descendants.h"
#include "muster/process/keeper.h"
#include "muster/process/python.h"
#include "muster/process/signals.h"

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

std::string path_of(const Environment& environment) { return environment.get("PATH").value_or(kDefaultPath); }

// Who hangs in the kernel (a file system that is gone) does not even die of SIGKILL, and is left behind.
void kill_and_reap(const Child& child) {
  signal_group(child.pid, SIGKILL);
  for (const Deadline deadline = Deadline::in(kDyingTime); !try_reap(child) && !deadline.passed();) {
    pollfd ended{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&ended, 1, deadline.poll_timeout());
  }
}

// Until one of `holders`, of which -1 is none, hangs up.
Result<CommandOutput> run_until(std::vector<std::string> argv, Environment environment, Deadline deadline,
                                std::array<int, 2> holders) {
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
    std::array<pollfd, 5> waiting{{{.fd = output.read.get(), .events = POLLIN, .revents = 0},
                                   {.fd = errors.read.get(), .events = POLLIN, .revents = 0},
                                   {.fd = child.pidfd.get(), .events = POLLIN, .revents = 0},
                                   {.fd = holders[0], .events = POLLRDHUP, .revents = 0},
                                   {.fd = holders[1], .events = POLLRDHUP, .revents = 0}}};
    if (::poll(waiting.data(), waiting.size(), deadline.poll_timeout()) == 0 && deadline.passed()) {
      kill_and_reap(child);
      return Error{ErrorKind::kTimeout, name + " did not answer in time", {}};
    }
    if (waiting[3].revents != 0 || waiting[4].revents != 0) {
      kill_and_reap(child);
      return Error{ErrorKind::kPeer, "the launcher is gone", {}};
    }
    auto status = try_reap(child);
    read_some(output.read, result.output);
    read_some(errors.read, result.errors);
    if (!status) continue;
    result.status = *status;
    return result;
  }
}

// What the keeper tells: an output, or an error.
std::string encode(const Result<CommandOutput>& ran) {
  ByteWriter out;
  out.boolean(ran.ok());
  out.u8(ran ? 0 : static_cast<uint8_t>(ran.error().kind));
  out.text(ran ? "" : ran.error().message);
  out.text(ran ? "" : ran.error().hint);
  out.u32(ran ? static_cast<uint32_t>(ran->status.code) : 0);
  out.u32(ran ? static_cast<uint32_t>(ran->status.signal) : 0);
  out.text(ran ? ran->output : "");
  out.text(ran ? ran->errors : "");
  return std::move(out).take();
}

Result<CommandOutput> decode(std::string_view bytes) {
  ByteReader in(bytes);
  const bool ran = in.boolean();
  Error error{static_cast<ErrorKind>(in.u8()), in.text(), in.text()};
  CommandOutput output;
  output.status.code = static_cast<int>(in.u32());
  output.status.signal = static_cast<int>(in.u32());
  output.output = in.text();
  output.errors = in.text();
  if (!in.done()) return Error{ErrorKind::kSystem, "the process that kept it was killed", {}};
  if (!ran) return error;
  return output;
}

}  // namespace

Result<CommandOutput> run_command(std::vector<std::string> argv, Environment environment, Deadline deadline) {
  return run_until(std::move(argv), std::move(environment), deadline, {-1, -1});
}

Result<CommandOutput> run_kept_command(const std::vector<std::string>& argv, const Environment& environment,
                                       Deadline deadline, int launcher) {
  constexpr auto kSpare = 3 * kDyingTime;  // for the keeper to be done with its own deadline
  const bool endless = deadline.time() > TimePoint::max() - kSpare;
  auto job = [&](int muster) {
    auto ran = run_until(argv, environment, deadline, {muster, launcher});
    if (!ran) kill_descendants(Deadline::in(kDyingTime));
    return encode(ran);
  };
  MUSTER_TRY(const Kept kept, run_kept(job, launcher < 0, endless ? deadline : Deadline::at(deadline.time() + kSpare)));
  if (kept.interrupted != 0)
    return Error{ErrorKind::kInterrupted,
                 fmt::format("{} interrupted {}", signal_name(kept.interrupted), argv.front()),
                 {},
                 kept.interrupted};
  return decode(kept.told);
}

std::string last_line(const std::string& text) {
  const std::string_view trimmed = trim(text);
  return std::string(trim(trimmed.substr(trimmed.empty() ? 0 : trimmed.rfind('\n') + 1)));
}

}  // namespace muster::process
