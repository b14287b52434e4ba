#include "muster/agent/warden.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>

#include "muster/agent/lease_keeper.h"
#include "muster/base/log.h"
#include "muster/job/stop_policy.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/process/descendants.h"
#include "muster/process/halt.h"
#include "muster/process/proc.h"
#include "muster/process/signals.h"
#include "muster/process/terminal.h"
#include "muster/process/urgency.h"

namespace muster::agent {
namespace {

// SIGKILL takes milliseconds. What is left after this hangs in the kernel; to leave a second earlier would not help.
constexpr auto kCleanUpTime = std::chrono::seconds(10);
// For the end of an agent that was killed, after all its workers have ended; and of one that has told its exit code.
constexpr auto kAgentEndTime = std::chrono::seconds(1);
constexpr auto kAgentExitTime = std::chrono::seconds(3);
// For everything below to stand still. What takes longer is a fork storm.
constexpr auto kHaltTime = std::chrono::seconds(1);
// How often the warden checks that everything still does: often at first, when processes are being continued one by one.
constexpr Duration kFirstLook = std::chrono::milliseconds(20);
constexpr Duration kLastLook = std::chrono::milliseconds(500);
// For the agent's pulse after a second stop signal: if the agent is stopped or hangs in the kernel, and at the latest.
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kLongAnswerTime = std::chrono::seconds(10);
// How often the warden checks whether the launcher is stopped.
constexpr auto kLauncherLook = std::chrono::milliseconds(100);
constexpr auto kGoodbyeTime = std::chrono::milliseconds(200);
constexpr int kSignalBase = 128;

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
    case SIGXFSZ:
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
  Warden(pid_t agent, process::SignalQueue signals, const WardenOptions& options, const process::Terminal& terminal,
         std::vector<pid_t> earlier)
      : agent_(agent),
        agent_fd_(open_pidfd(agent)),
        signals_(std::move(signals)),
        options_(options),
        terminal_(terminal),
        earlier_(std::move(earlier)) {}

  // Until the agent has ended, or everything was killed; returns muster's exit code.
  int watch() {
    loop_.watch(agent_fd_.get(), EPOLLIN, [this](uint32_t) { loop_.stop(); });
    loop_.watch(signals_.fd(), EPOLLIN, [this](uint32_t) { take_signals(); });
    if (options_.link != nullptr) loop_.watch(options_.link->wake_fd(), EPOLLIN, [this](uint32_t) { read_link(); });
    if (options_.launcher > 0) look_at_launcher();
    // No deadline: a job takes as long as it takes, and each way in which it can end wakes us.
    loop_.run();
    take_signals();
    return finish();
  }

 private:
  void take_signals() {
    // A process that was stopped learns it here, by its SIGCONT: the lease comes first.
    if (lease_) lease_->look();
    while (auto received = signals_.next()) take(received->signal);
  }

  void read_link() {
    options_.link->take_wake();
    if (!lease_ && options_.link->terms()) begin_lease();
    if (options_.link->exit_code()) loop_.call_after(kAgentExitTime, [this] { loop_.stop(); });
  }

  void begin_lease() {
    lease_ = std::make_unique<LeaseKeeper>(
        loop_, options_.token, *options_.link,
        LeaseKeeper::Handlers{.stop_workers = [this] { hold_if(asking_, true); },
                              .continue_workers = [this] { hold_if(asking_, false); },
                              .expired = [this](const std::string& why) { kill_everything(why); }});
  }

  void hold_if(bool& reason, bool holds) {
    reason = holds;
    next_look_ = kFirstLook;
    hold_or_continue();
  }

  // While there is a reason, nothing below runs but the agent, which has to find out. Another process may continue those
  // that it has stopped before, so the warden looks again.
  void hold_or_continue() {
    loop_.cancel(hold_timer_);
    if (!killed_because_.empty()) return;
    if (!asking_ && !agent_is_stopped_) return halt_.resume();
    stop_all_below();
    hold_timer_ = loop_.call_after(next_look_, [this] { hold_or_continue(); });
    next_look_ = std::min(2 * next_look_, kLastLook);
  }

  void stop_all_below() {
    if (!halt_.stop(kHaltTime, agent_) && lease_)
      kill_everything("its processes must stand still, but start others faster than they can be stopped");
  }

  void look_at_launcher() {
    if (state_of(options_.launcher) == 'T') stand_still();
    loop_.call_after(kLauncherLook, [this] { look_at_launcher(); });
  }

  // As if this process were stopped too, until the launcher goes on or the agent ends: a job that is suspended by its
  // launcher's session (PBS) stands still as a whole. The lease is looked at before anything goes on.
  void stand_still() {
    const bool agent_runs = agent_state() != 'T';
    if (agent_runs) send_signal(agent_fd_, SIGSTOP);
    pollfd ended{agent_fd_.get(), POLLIN, 0};
    do {
      stop_all_below();
      if (!killed_because_.empty()) return;
    } while (::poll(&ended, 1, static_cast<int>(kLauncherLook.count())) <= 0 && state_of(options_.launcher) == 'T');
    if (lease_) lease_->look();
    if (agent_runs) send_signal(agent_fd_, SIGCONT);
    hold_or_continue();
  }

  // The agent first: with SIGKILL pending it starts no worker. It is not waited for: in an uninterruptible sleep it ends
  // only when that does.
  void kill_everything(const std::string& why) {
    if (!killed_because_.empty()) return;
    killed_because_ = why;
    send_signal(agent_fd_, SIGKILL);
    kill_rest(false, false);
    loop_.stop();
  }

  // Returns how many could not be ended in time.
  size_t kill_rest(bool agent_has_ended, bool keep_children) const {
    auto wanted = [&](pid_t pid) {
      if (pid == agent_ && !agent_has_ended) return false;
      return !keep_children || std::find(earlier_.begin(), earlier_.end(), pid) != earlier_.end();
    };
    return process::kill_descendants(Deadline::in(kCleanUpTime), {agent_}, wanted).size();
  }

  void take(int signal) {
    if (signal == SIGCHLD) return agent_may_have_stopped();
    if (signal == SIGTSTP) suspending_ = !lease_;  // a job of several nodes is not suspended
    if (signal == SIGCONT) suspending_ = false;
    send_signal(agent_fd_, signal);
    if (job::meaning_of(signal, {}, {}) == job::SignalMeaning::kStop) note_stop_signal(signal);
  }

  void agent_may_have_stopped() {
    const bool stopped = agent_state() == 'T';
    if (suspending_ && stopped) return stop_this_process();
    if (stopped != agent_is_stopped_) hold_if(agent_is_stopped_, stopped);
  }

  static char state_of(pid_t pid) {
    auto stat = process::read_proc_stat(pid);
    return stat ? stat->state : 'X';
  }
  char agent_state() const { return state_of(agent_); }

  void stop_this_process() {
    suspending_ = false;
    ::raise(SIGSTOP);
  }

  // A user who asks twice wants an end. An agent that can act ends everything; else the warden does.
  void note_stop_signal(int signal) {
    stop_signals_.push_back(signal);
    if (stop_signals_.size() < 2) return;
    const TimePoint asked = Clock::now();
    loop_.call_after(kAnswerTime, [this, asked] {
      if (!answered_since(asked) && std::string_view("TtD").find(agent_state()) != std::string_view::npos)
        end_by_signal();
    });
    loop_.call_after(kLongAnswerTime, [this, asked] {
      if (!answered_since(asked)) end_by_signal();
    });
  }

  bool answered_since(TimePoint asked) const { return options_.link != nullptr && options_.link->last_pulse() > asked; }

  void end_by_signal() {
    ended_by_ = stop_signals_.front();
    kill_everything(fmt::format("a second signal asked muster to end, and the agent (pid {}) {}", agent_,
                                agent_state() == 'T' ? "is stopped" : "does not answer"));
  }

  // False: it was killed, or has told its exit code, and hangs in the kernel.
  bool agent_ends() const {
    pollfd ended{agent_fd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, killed_because_.empty() ? 0 : Deadline::in(kAgentEndTime).poll_timeout()) > 0;
  }

  int finish() {
    loop_.unwatch(agent_fd_.get());
    const bool agent_has_ended = agent_ends();
    siginfo_t info{};
    if (agent_has_ended) {
      if (::waitid(P_PID, static_cast<id_t>(agent_), &info, WEXITED) != 0) info.si_code = 0;
    } else if (killed_because_.empty()) {
      info.si_code = CLD_EXITED;
      info.si_status = options_.link->exit_code().value_or(kMusterFailed);
    }
    const bool exited = info.si_code == CLD_EXITED;
    if (exited && options_.at_end) options_.at_end();
    const bool keep_children = options_.keep_children && exited && info.si_status == 0;
    const size_t left = anything_left() ? kill_rest(agent_has_ended, keep_children) : 0;
    terminal_.restore();
    // Before what may wait for a disk.
    if (left == 0 && lease_) lease_->say_goodbye(Deadline::in(kGoodbyeTime));
    if (!exited && options_.after_kill) options_.after_kill();
    if (!agent_has_ended)
      Log::to_stderr().error(
          "the agent (pid {}) hangs in the kernel, perhaps because of a file system; it ends when that lets it go",
          agent_);
    return exited ? info.si_status : explain(info, left);
  }

  int explain(const siginfo_t& info, size_t left) const {
    Log log = Log::to_stderr();
    if (!killed_because_.empty()) {
      log.error("{}: {}; everything of the job on this node was ended", net::hostname(), killed_because_);
    } else {
      log.error("the agent (pid {}) was killed by {}; its workers were ended", agent_,
                process::signal_name(info.si_status));
    }
    if (left > 0) log.error("{} of its processes could not be ended in time", left);
    return ended_by_ == 0 ? kMusterFailed : kSignalBase + ended_by_;
  }

  pid_t agent_;
  Fd agent_fd_;
  process::SignalQueue signals_;
  const WardenOptions& options_;
  process::Terminal terminal_;
  std::vector<pid_t> earlier_;
  net::EventLoop loop_;
  std::unique_ptr<LeaseKeeper> lease_;
  process::Halt halt_;
  bool asking_ = false;            // whether the round stands
  bool agent_is_stopped_ = false;  // and not because this process was asked to suspend the job
  Duration next_look_ = kFirstLook;
  net::EventLoop::TimerId hold_timer_ = 0;
  std::string killed_because_;
  std::vector<int> stop_signals_;  // in the order in which they came
  int ended_by_ = 0;               // the first of them, when everything was killed for them
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

[[noreturn]] void become_agent(const std::function<int(int, int)>& agent, pid_t warden, const Fd& warden_fd,
                               WardenLink* link) {
  ::setsid();
  // A stopped agent would not notice that the warden is gone.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (::getppid() != warden || !process::become_subreaper()) ::_exit(kMusterFailed);
  int code = agent(warden, warden_fd.get());
  if (link != nullptr) link->set_exit_code(code);
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

  const bool is_member = !(options.token == job::Token());
  const process::Terminal terminal(self);  // before a worker can change it
  // A core dump would have the token, and /proc/<pid>/environ the secret that it was made of. A worker's exec undoes
  // it.
  if (is_member) ::prctl(PR_SET_DUMPABLE, 0);
  ::fflush(nullptr);
  std::vector<pid_t> earlier = process::descendants();
  pid_t child = ::fork();
  if (child < 0) return give_up(no_process_error(errno, "cannot start the agent"));
  if (child == 0) become_agent(agent, self, self_fd, options.link);
  process::prefer_short_turns();
  if (is_member) process::lock_memory();
  if (options.after_fork) options.after_fork();
  return Warden(child, *std::move(signals), options, terminal, std::move(earlier)).watch();
}

void end_without_warden(const std::function<void(bool nothing_left)>& last) {
  const bool nothing_left = process::kill_descendants(Deadline::in(kCleanUpTime)).empty();
  if (last) last(nothing_left);
  ::_exit(kMusterFailed);
}

}  // namespace muster::agent
