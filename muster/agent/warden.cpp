#include "muster/agent/warden.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include "muster/agent/lease_keeper.h"
#include "muster/base/log.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/process/descendants.h"
#include "muster/process/signals.h"
#include "muster/process/urgency.h"

namespace muster::agent {
namespace {

// SIGKILL takes milliseconds. What is left after this hangs in the kernel; to leave a second earlier would help nobody.
constexpr auto kCleanUpTime = std::chrono::seconds(10);

Fd open_pidfd(pid_t pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

void send_signal(const Fd& process, int signal) { ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0); }

bool ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool is_passed_on(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:  // cannot be caught
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:  // faults of our own
    case SIGCHLD:
    case SIGPIPE:
    case SIGURG:
    case SIGTTIN:
    case SIGTTOU:  // between this process and the kernel
      return false;
    default:
      return signal <= SIGSYS || signal >= SIGRTMIN;  // those between belong to libc
  }
}

// Orphans of an agent that is gone have become children of ours.
bool anything_left() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// The part of the warden that lives as long as the agent.
class Warden {
 public:
  // `earlier`: what ran below this process before there was an agent, a prologue's daemon.
  Warden(pid_t agent, process::SignalQueue signals, const WardenOptions& options, std::vector<pid_t> earlier)
      : agent_(agent),
        agent_fd_(open_pidfd(agent)),
        signals_(std::move(signals)),
        options_(options),
        earlier_(std::move(earlier)) {}

  // Until the agent has ended; returns muster's exit code.
  int watch() {
    loop_.watch(agent_fd_.get(), EPOLLIN, [this](uint32_t) { loop_.stop(); });
    loop_.watch(signals_.fd(), EPOLLIN, [this](uint32_t) { take_signals(); });
    if (options_.link != nullptr) loop_.watch(options_.link->wake_fd(), EPOLLIN, [this](uint32_t) { begin_lease(); });
    // No deadline: a job takes as long as it takes, and each way in which it can end wakes us.
    loop_.run();
    take_signals();
    return finish();
  }

 private:
  void take_signals() {
    while (auto received = signals_.next()) take(received->signal);
  }

  void begin_lease() {
    loop_.unwatch(options_.link->wake_fd());
    lease_ =
        std::make_unique<LeaseKeeper>(loop_, options_.token, *options_.link,
                                      LeaseKeeper::Handlers{.stop_workers = [this] { stop_workers(); },
                                                            .continue_workers = [this] { continue_workers(); },
                                                            .expired = [this](const std::string& why) { fence(why); }});
  }

  // Everything below but the agent, which has to find out.
  void stop_workers() {
    stopped_ = process::descendants();
    std::erase(stopped_, agent_);
    for (pid_t pid : stopped_) ::kill(pid, SIGSTOP);
  }

  void continue_workers() {
    for (pid_t pid : stopped_) ::kill(pid, SIGCONT);
    stopped_.clear();
  }

  void fence(const std::string& why) {
    fenced_ = why;
    ::kill(agent_, SIGKILL);  // what is left falls to us
  }

  void take(int signal) {
    if (signal == SIGCHLD) {
      if (suspending_ && agent_has_stopped()) stop_this_process();
      return;
    }
    if (signal == SIGTSTP) suspending_ = true;
    if (signal == SIGCONT) suspending_ = false;
    send_signal(agent_fd_, signal);
  }

  bool agent_has_stopped() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(agent_), &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == agent_;
  }

  void stop_this_process() {
    suspending_ = false;
    ::raise(SIGSTOP);
  }

  int finish() const {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(agent_), &info, WEXITED) != 0) info.si_code = 0;
    if (info.si_code == CLD_EXITED && options_.at_end) options_.at_end();
    const bool succeeded = info.si_code == CLD_EXITED && info.si_status == 0;
    const size_t left = end_what_is_left(options_.keep_children && succeeded);
    if (info.si_code == CLD_EXITED) return info.si_status;
    if (options_.after_kill) options_.after_kill();
    Log log = Log::to_stderr();
    if (!fenced_.empty()) {
      log.error("{}: {}; everything of the job on this node was ended", net::hostname(), fenced_);
    } else {
      log.error("the agent (pid {}) was killed by {}; its workers were ended", agent_,
                process::signal_name(info.si_status));
    }
    if (left > 0) log.error("{} of its processes could not be ended in time", left);
    return kMusterFailed;
  }

  // How much could not be ended in time.
  size_t end_what_is_left(bool keep_children) const {
    if (!anything_left()) return 0;
    auto wanted = [&](pid_t pid) {
      return !keep_children || std::find(earlier_.begin(), earlier_.end(), pid) != earlier_.end();
    };
    return process::kill_descendants(Deadline::in(kCleanUpTime), {}, wanted).size();
  }

  pid_t agent_;
  Fd agent_fd_;
  process::SignalQueue signals_;
  const WardenOptions& options_;
  std::vector<pid_t> earlier_;
  net::EventLoop loop_;
  std::unique_ptr<LeaseKeeper> lease_;
  std::vector<pid_t> stopped_;  // by us, while we ask whether the round stands
  std::string fenced_;          // why
  bool suspending_ = false;
};

// What the warden takes: what it passes on less what was blocked when muster was started, and SIGCHLD.
std::vector<int> signals_to_take() {
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  std::vector<int> signals = forwarded_signals();
  std::erase_if(signals, [&](int signal) { return ::sigismember(&blocked, signal) == 1; });
  signals.push_back(SIGCHLD);
  return signals;
}

[[noreturn]] void become_agent(const std::function<int(int, int)>& agent, pid_t warden, const Fd& warden_fd) {
  ::setsid();
  // A stopped agent would not notice that the warden is gone.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (::getppid() != warden || !process::become_subreaper()) ::_exit(kMusterFailed);
  int code = agent(warden, warden_fd.get());
  ::fflush(nullptr);
  ::_exit(code);
}

// A descriptor we open must never become a worker's stdout because ours was closed.
void open_closed_stdio() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return;
}

int give_up(const Error& error) {
  Log::to_stderr().error("{}", error.text());
  return kMusterFailed;
}

}  // namespace

std::vector<int> forwarded_signals() {
  std::vector<int> signals;
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (is_passed_on(signal) && !ignored(signal)) signals.push_back(signal);
  return signals;
}

int run_under_warden(const std::function<int(int warden_pid, int warden_pidfd)>& agent, const WardenOptions& options) {
  open_closed_stdio();
  // A reader that has gone is an error code for whoever writes, in both processes.
  ::signal(SIGPIPE, SIG_IGN);
  // Whoever started us may ignore SIGCHLD, and then nobody's exit status would be kept.
  ::signal(SIGCHLD, SIG_DFL);
  if (auto subreaper = process::become_subreaper(); !subreaper) return give_up(subreaper.error());
  auto signals = process::SignalQueue::open(signals_to_take());
  if (!signals) return give_up(signals.error());
  pid_t self = ::getpid();
  Fd self_fd = open_pidfd(self);  // opened before the fork: it can only mean this process
  if (!self_fd) return give_up(system_error(errno, "pidfd_open (muster needs Linux 5.3)"));

  // A core dump would have the token, and /proc/<pid>/environ the secret that it was made of. A worker's exec undoes
  // it.
  if (options.link != nullptr) ::prctl(PR_SET_DUMPABLE, 0);
  ::fflush(nullptr);
  std::vector<pid_t> earlier = process::descendants();
  pid_t child = ::fork();
  if (child < 0) return give_up(system_error(errno, "fork"));
  if (child == 0) become_agent(agent, self, self_fd);
  process::prefer_short_turns();
  if (options.after_fork) options.after_fork();
  return Warden(child, *std::move(signals), options, std::move(earlier)).watch();
}

void end_without_warden(const std::function<void()>& last) {
  process::kill_descendants(Deadline::in(kCleanUpTime));
  if (last) last();
  ::_exit(kMusterFailed);
}

}  // namespace muster::agent
