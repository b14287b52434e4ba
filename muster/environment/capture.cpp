#include "muster/environment/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "muster/base/strings.h"
#include "muster/environment/assignments.h"
#include "muster/environment/captured.h"
#include "muster/environment/set_up_failure.h"
#include "muster/process/descendants.h"
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

// While it lives, signals that would end this process wait to be read.
class SignalsHeld {
 public:
  static Result<SignalsHeld> open() {
    sigset_t old;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &old);
    MUSTER_TRY(process::SignalQueue queue, process::SignalQueue::open({SIGINT, SIGTERM, SIGHUP, SIGQUIT}));
    return SignalsHeld(std::move(queue), old);
  }
  SignalsHeld(SignalsHeld&& other) noexcept : queue_(std::move(other.queue_)), old_(other.old_), moved_(false) {
    other.moved_ = true;
  }
  SignalsHeld& operator=(SignalsHeld&&) = delete;
  ~SignalsHeld() {
    if (!moved_) ::pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  process::SignalQueue& queue() { return queue_; }

 private:
  SignalsHeld(process::SignalQueue queue, const sigset_t& old) : queue_(std::move(queue)), old_(old) {}
  process::SignalQueue queue_;
  sigset_t old_;
  bool moved_ = false;
};

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  MUSTER_TRY_VOID(set_nonblocking(pipe.read.get(), true));
  return pipe;
}

class Shell {
 public:
  Shell(std::vector<Step> steps, const CaptureOptions& options) : steps_(std::move(steps)), options_(options) {}

  Result<process::Environment> run(const process::Environment& environment);
  std::string output() const;

 private:
  enum class End { kEnded, kTimeout, kLauncherGone, kSignal };

  Result<void> start(const process::Environment& environment);
  End wait(process::SignalQueue& signals);
  void read_all();
  bool read_some(Fd& fd, std::string& into, size_t most);
  void take_output(std::string_view bytes);
  void say_where_it_is();
  void kill_everything() const;

  const std::vector<Step> steps_;
  const CaptureOptions& options_;
  process::Child child_;
  std::optional<process::ExitStatus> status_;
  Fd report_fd_, output_fd_;
  std::string report_, output_;
  bool output_cut_ = false;
  std::optional<size_t> said_;
  int signal_ = 0;
};

Result<void> Shell::start(const process::Environment& environment) {
  auto variable = [&](std::string_view name) {
    auto found = std::find_if(environment.begin(), environment.end(), [&](const auto& e) { return e.first == name; });
    return found == environment.end() ? std::string(process::kDefaultPath)
                                      : found->second + ":" + process::kDefaultPath;
  };
  MUSTER_TRY(std::string bash, process::find_program("bash", variable("PATH")));
  MUSTER_TRY(std::string cat, process::find_program("cat", variable("PATH")));
  MUSTER_TRY(Pipe report, make_pipe());
  MUSTER_TRY(Pipe output, make_pipe());
  MUSTER_TRY(child_, process::spawn({.program = bash,
                                     .argv = shell_command(bash, cat, steps_),
                                     .environment = environment,
                                     .stdout_fd = report.write.get(),
                                     .stderr_fd = output.write.get()}));
  report_fd_ = std::move(report.read);
  output_fd_ = std::move(output.read);
  return {};
}

Result<process::Environment> Shell::run(const process::Environment& environment) {
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody's exit status is kept
  MUSTER_TRY_VOID(process::become_subreaper());
  End end{};
  {
    MUSTER_TRY(SignalsHeld held, SignalsHeld::open());
    MUSTER_TRY_VOID(start(environment));
    end = wait(held.queue());
    if (end != End::kEnded || !status_->success()) kill_everything();
  }
  if (end == End::kSignal) ::raise(signal_);  // now it does what it does
  const Captured captured = parse_captured(report_);
  const std::string at = captured.step && *captured.step < steps_.size() ? steps_[*captured.step].title() : "bash";
  if (end == End::kTimeout)
    return Error{ErrorKind::kTimeout,
                 fmt::format("`{}` was not done after {} s", at,
                             std::chrono::duration_cast<std::chrono::seconds>(options_.time).count()),
                 "raise --join-timeout, which bounds the set-up too"};
  if (end == End::kLauncherGone) return Error{ErrorKind::kPeer, "the launcher is gone", {}};
  if (end == End::kSignal) return Error{ErrorKind::kSystem, process::signal_name(signal_), {}};
  if (!status_->success() || !captured.environment || captured.failed || captured.exited)
    return explain_failure(steps_, captured, *status_, line_of);
  return *captured.environment;
}

Shell::End Shell::wait(process::SignalQueue& signals) {
  const TimePoint began = Clock::now();
  const Deadline deadline = Deadline::at(began + options_.time);
  while (true) {
    const bool silent = options_.slow && Clock::now() < began + kSilence;
    const int timeout =
        std::min(deadline.poll_timeout(), silent ? Deadline::at(began + kSilence).poll_timeout() : INT32_MAX);
    std::array<pollfd, 5> watched = {{{child_.pidfd.get(), POLLIN, 0},
                                      {report_fd_.get(), POLLIN, 0},
                                      {output_fd_.get(), POLLIN, 0},
                                      {signals.fd(), POLLIN, 0},
                                      {options_.launcher, POLLRDHUP, 0}}};  // negative ones are passed over
    if (::poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return End::kTimeout;
    read_all();
    if (watched[0].revents != 0 && (status_ = process::try_reap(child_))) {
      read_all();  // what was on its way; who else has the pipes open is not waited for
      return End::kEnded;
    }
    if (auto received = signals.next()) {
      signal_ = received->signal;
      return End::kSignal;
    }
    if (watched[4].revents != 0) return End::kLauncherGone;
    if (deadline.passed()) return End::kTimeout;
    if (options_.slow && Clock::now() >= began + kSilence) say_where_it_is();
  }
}

void Shell::read_all() {
  while (read_some(report_fd_, report_, kReportMost)) {
  }
  std::string bytes;
  while (read_some(output_fd_, bytes, kOutputKept)) take_output(std::exchange(bytes, {}));
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

void Shell::kill_everything() const {
  process::signal_group(child_.pid, SIGKILL);
  process::kill_descendants(Deadline::in(kKillTime));
}

}  // namespace

Capture capture(const Setup& setup, const process::Environment& before, const CaptureOptions& options) {
  process::Environment base = with(before, setup.set);
  if (!setup.needs_shell()) return {base, {}};
  Shell shell(steps(setup, file_head), options);
  auto left = shell.run(base);
  if (!left) return {left.error(), shell.output()};
  return {with(settle(*left, base), setup.set), shell.output()};
}

}  // namespace muster::environment
