#include "muster/environment/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "muster/base/bytes.h"
#include "muster/base/fd.h"
#include "muster/base/pipe.h"
#include "muster/base/strings.h"
#include "muster/environment/assignments.h"
#include "muster/environment/captured.h"
#include "muster/environment/set_up_failure.h"
#include "muster/process/descendants.h"
#include "muster/process/keeper.h"
#include "muster/process/python.h"
#include "muster/process/signals.h"

namespace muster::environment {
namespace {

constexpr auto kSilence = std::chrono::seconds(1);  // sooner nobody wonders
constexpr auto kKillTime = std::chrono::seconds(5);
constexpr size_t kOutputKept = 64 << 10;
constexpr size_t kReportMost = 64 << 20;  // far beyond what exec takes
constexpr size_t kHead = 256;

std::optional<std::string> file_head(const std::string& path) {
  // A command of several words is no path, and a directory or device no script.
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(kHead, '\0');
  const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

std::string line_of(const std::string& file, int line) {
  constexpr size_t kMost = 1 << 20;
  auto text = read_file(file, kMost);
  if (!text) return {};
  const auto lines = split(*text, '\n');
  const auto index = static_cast<size_t>(line) - 1;
  return line >= 1 && index < lines.size() ? std::string(lines[index]) : std::string();
}

// How the shell ended, as the keeper tells it.
struct Ending {
  enum class Kind : uint8_t { kEnded, kTimeout, kGone, kFailed } kind = Kind::kFailed;
  process::ExitStatus status = {};
  std::string report = {};  // captured.h
  std::string output = {};
  std::string error = {};  // kFailed: why there was no shell
  int interrupted = 0;     // by that signal, for which kGone stands; not told by the keeper
};

std::string encode(const Ending& ending) {
  ByteWriter out;
  out.u8(static_cast<uint8_t>(ending.kind));
  out.u32(static_cast<uint32_t>(ending.status.code));
  out.u32(static_cast<uint32_t>(ending.status.signal));
  out.text(ending.report);
  out.text(ending.output);
  out.text(ending.error);
  return std::move(out).take();
}

Ending decode(std::string_view bytes) {
  ByteReader in(bytes);
  Ending ending;
  ending.kind = static_cast<Ending::Kind>(in.u8());
  ending.status.code = static_cast<int>(in.u32());
  ending.status.signal = static_cast<int>(in.u32());
  ending.report = in.text();
  ending.output = in.text();
  ending.error = in.text();
  if (!in.done()) return {.kind = Ending::Kind::kFailed, .error = "the process that kept the set-up was killed"};
  return ending;
}

// In the keeper.
class Shell {
 public:
  Shell(const std::vector<Step>& steps, const CaptureOptions& options) : steps_(steps), options_(options) {}

  // Until it has ended, or there is no more reason to wait; then everything it started is killed.
  Ending run(const Environment& environment, int muster);

 private:
  Result<void> start(const Environment& environment);
  Ending::Kind wait(int muster);
  void read_all();
  static bool read_some(Fd& fd, std::string& into, size_t most);
  void take_output(std::string_view bytes);
  std::string output() const;
  void say_where_it_is();

  const std::vector<Step>& steps_;
  const CaptureOptions& options_;
  process::Child child_;
  std::optional<process::ExitStatus> status_;
  Fd report_fd_, output_fd_;
  std::string report_, output_;
  bool output_cut_ = false;
  std::optional<size_t> said_;
};

Result<void> Shell::start(const Environment& environment) {
  const std::string* own = environment.find("PATH");
  const std::string path = (own == nullptr ? "" : *own + ":") + process::kDefaultPath;
  MUSTER_TRY(std::string bash, process::find_program("bash", path));
  MUSTER_TRY(std::string cat, process::find_program("cat", path));
  MUSTER_TRY(Fd texts, memory_file(shell_input(steps_)));
  MUSTER_TRY(Pipe report, make_pipe());
  MUSTER_TRY(Pipe output, make_pipe());
  MUSTER_TRY(child_, process::spawn({.program = bash,
                                     .argv = shell_command(bash, cat, steps_),
                                     .environment = environment,
                                     .stdin_fd = texts.get(),
                                     .stdout_fd = report.write.get(),
                                     .stderr_fd = output.write.get()}));
  report_fd_ = std::move(report.read);
  output_fd_ = std::move(output.read);
  return {};
}

Ending Shell::run(const Environment& environment, int muster) {
  if (auto started = start(environment); !started)
    return {.kind = Ending::Kind::kFailed, .error = started.error().text()};
  const Ending::Kind kind = wait(muster);
  if (kind != Ending::Kind::kEnded || !status_->success()) {
    process::signal_group(child_.pid, SIGKILL);
    process::kill_descendants(Deadline::in(kKillTime));
  }
  return {kind, status_.value_or(process::ExitStatus{}), std::move(report_), output(), {}};
}

Ending::Kind Shell::wait(int muster) {
  const TimePoint began = Clock::now();
  const Deadline deadline = Deadline::at(began + options_.time), silence = Deadline::at(began + kSilence);
  while (true) {
    const bool silent = options_.slow && !silence.passed();
    const int timeout = std::min(deadline.poll_timeout(), silent ? silence.poll_timeout() : INT32_MAX);
    std::array<pollfd, 5> watched = {{{child_.pidfd.get(), POLLIN, 0},
                                      {report_fd_.get(), POLLIN, 0},
                                      {output_fd_.get(), POLLIN, 0},
                                      {muster, POLLIN, 0},
                                      {options_.launcher, POLLRDHUP, 0}}};  // negative ones are passed over
    if (::poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return Ending::Kind::kGone;
    read_all();
    if (watched[0].revents != 0 && (status_ = process::try_reap(child_))) {
      read_all();  // what was on its way; who else has the pipes open is not waited for
      return Ending::Kind::kEnded;
    }
    if (watched[3].revents != 0 || watched[4].revents != 0) return Ending::Kind::kGone;
    if (deadline.passed()) return Ending::Kind::kTimeout;
    if (options_.slow && silence.passed()) say_where_it_is();
  }
}

// No more than a pipe can hold, lest somebody who never stops writing keeps us from looking at anything else.
void Shell::read_all() {
  constexpr int kReads = 128;
  for (int i = 0; i < kReads && read_some(report_fd_, report_, kReportMost); ++i) {
  }
  std::string bytes;
  for (int i = 0; i < kReads && read_some(output_fd_, bytes, kOutputKept); ++i) take_output(std::exchange(bytes, {}));
}

// Appends what is there; false: nothing is, or nothing will be.
bool Shell::read_some(Fd& fd, std::string& into, size_t most) {
  if (!fd) return false;
  char buffer[16 << 10];
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return true;
  if (got == 0) fd.reset();
  if (got <= 0) return false;
  if (into.size() < most) into.append(buffer, static_cast<size_t>(got));
  return true;
}

void Shell::take_output(std::string_view bytes) {
  if (options_.printed) options_.printed(bytes);
  output_ += bytes;
  if (output_.size() <= 2 * kOutputKept) return;
  output_.erase(0, output_.size() - kOutputKept);
  output_cut_ = true;
}

std::string Shell::output() const {
  if (!output_cut_) return output_;
  return output_.substr(std::min(output_.find('\n'), output_.size() - 1) + 1);
}

void Shell::say_where_it_is() {
  const auto step = parse_captured(report_).step;
  if (!step || step == said_ || *step >= steps_.size()) return;
  said_ = step;
  options_.slow(steps_[*step].title());
}

Result<Environment> judge(const std::vector<Step>& steps, const Ending& ending, const CaptureOptions& options) {
  const Captured captured = parse_captured(ending.report);
  const std::string at = captured.step && *captured.step < steps.size() ? steps[*captured.step].title() : "bash";
  if (ending.interrupted != 0)
    return Error{ErrorKind::kInterrupted,
                 fmt::format("{} interrupted the set-up, at `{}`", process::signal_name(ending.interrupted), at),
                 {},
                 ending.interrupted};
  switch (ending.kind) {
    case Ending::Kind::kFailed:
      return Error{ErrorKind::kSystem, ending.error, {}};
    case Ending::Kind::kGone:
      return Error{ErrorKind::kPeer, "the launcher is gone", {}};
    case Ending::Kind::kTimeout:
      return Error{ErrorKind::kTimeout,
                   fmt::format("`{}` was not done after {} s", at,
                               std::chrono::duration_cast<std::chrono::seconds>(options.time).count()),
                   "raise --join-timeout, which bounds the set-up too"};
    case Ending::Kind::kEnded:
      break;
  }
  if (!ending.status.success() || !captured.environment || captured.failed || captured.exited)
    return explain_failure(steps, captured, ending.status, line_of);
  return *captured.environment;
}

}  // namespace

Capture capture(const Setup& setup, const Environment& before, const CaptureOptions& options) {
  Environment base = before;
  base.set_all(setup.set);
  if (!setup.needs_shell()) return {base, {}};
  const std::vector<Step> to_do = steps(setup, file_head);
  // What a set-up leaves running (ssh-agent …) is part of the job, and ends with it.
  if (auto adopts = process::become_subreaper(); !adopts) return {adopts.error(), {}};
  auto kept = process::run_kept([&](int muster) { return encode(Shell(to_do, options).run(base, muster)); },
                                options.launcher < 0, Deadline::in(options.time + 2 * kKillTime));
  if (!kept) return {kept.error(), {}};
  Ending ending = decode(kept->told);
  ending.interrupted = kept->interrupted;
  auto left = judge(to_do, ending, options);
  if (!left) return {left.error(), ending.output};
  Environment settled = settle(*left, base);
  settled.set_all(setup.set);
  return {settled, ending.output};
}

}  // namespace muster::environment
