#include "muster/process/descendants.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/process/proc.h"

namespace muster::process {
namespace {

// From the parents named in /proc/*/stat: /proc/<pid>/task/*/children would be quicker where the kernel has it, but it
// leaves entries out while siblings exit, which is just when we look.
std::vector<ProcStat> processes_below() { return tree_below(getpid(), all_processes()); }

// Without children there are no descendants either, because a subreaper adopts. Costs one system call.
bool has_children() {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

constexpr int kLongestWaitMs = 20;  // until /proc is looked at again

// Until the process has ended or the time is over; an event, not a sleep, decides.
void await_end(pid_t pid, int timeout_ms) {
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return;
  pollfd entry{fd.get(), POLLIN, 0};
  poll(&entry, 1, timeout_ms);
}

// A process reads as without an environment while it executes a program: look again before believing that.
std::string environ_of(pid_t pid) {
  constexpr int kLooks = 5;
  const std::string path = fmt::format("/proc/{}/environ", pid);
  for (int look = 1;; ++look) {
    auto text = read_file(path);
    if (!text) return {};
    if (!text->empty() || look == kLooks) return *std::move(text);
    poll(nullptr, 0, 1);
  }
}

class Hunt {
 public:
  Hunt(const std::vector<pid_t>& keep_zombies, const std::function<bool(pid_t)>& wanted)
      : keep_(keep_zombies), wanted_(wanted) {}

  struct Sight {
    std::vector<pid_t> alive;  // and wanted
    bool reaped = false;       // somebody ended; what it left behind may be too young to be in the list
  };

  Sight look() {
    Sight sight;
    for (const ProcStat& process : processes_below()) {
      if (!process.ended()) {
        if (killed_.contains(process.pid) || !wanted_ || wanted_(process.pid)) sight.alive.push_back(process.pid);
      } else if (process.parent == getpid() && std::find(keep_.begin(), keep_.end(), process.pid) == keep_.end()) {
        waitpid(process.pid, nullptr, WNOHANG);
        killed_.erase(process.pid);
        sight.reaped = true;
      }
    }
    return sight;
  }

  // A process with a fatal or stop signal pending cannot fork any more, but its newest children may be in no list yet:
  // look again until a look finds nobody new.
  void stop_then_kill(std::vector<pid_t> alive) {
    std::set<pid_t> stopped;
    for (int pass = 0; pass < kStopPasses; ++pass) {
      bool found = false;
      for (pid_t pid : alive) {
        if (!stopped.insert(pid).second) continue;
        found = true;
        kill(pid, SIGSTOP);
      }
      if (!found) break;
      alive = look().alive;
    }
    for (pid_t pid : stopped) {
      kill(pid, SIGKILL);
      killed_.insert(pid);
    }
  }

 private:
  static constexpr int kStopPasses = 16;  // a fork bomb faster than this is met by the next round

  const std::vector<pid_t>& keep_;
  const std::function<bool(pid_t)>& wanted_;
  std::set<pid_t> killed_;
};

}  // namespace

Result<void> become_subreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return system_error(errno, "cannot become a subreaper");
  return {};
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> result;
  if (!has_children()) return result;
  for (const ProcStat& process : processes_below()) {
    if (!process.ended()) result.push_back(process.pid);
  }
  return result;
}

std::vector<pid_t> still_running(Deadline deadline, const std::function<bool(pid_t)>& wanted) {
  while (true) {
    std::vector<pid_t> running = descendants();
    std::erase_if(running, [&](pid_t pid) { return !wanted(pid); });
    if (running.empty() || deadline.passed()) return running;
    await_end(running.front(), std::min(kLongestWaitMs, deadline.poll_timeout()));
  }
}

std::vector<pid_t> kill_descendants(Deadline deadline, const std::vector<pid_t>& keep_zombies,
                                    const std::function<bool(pid_t)>& wanted) {
  Hunt hunt(keep_zombies, wanted);
  while (has_children()) {
    Hunt::Sight sight = hunt.look();
    if (sight.alive.empty() && !sight.reaped) return {};
    if (deadline.passed()) return sight.alive;
    if (sight.alive.empty()) continue;
    hunt.stop_then_kill(sight.alive);
    await_end(sight.alive.front(), std::min(kLongestWaitMs, deadline.poll_timeout()));
  }
  return {};
}

bool belongs_to(pid_t pid, pid_t session, const std::string& marker) {
  auto stat = read_proc_stat(pid);
  if (!stat) return false;
  if (stat->session == session) return true;
  if (stat->ended()) return false;  // what has ended has no environment
  return has_entry(environ_of(pid), marker);
}

}  // namespace muster::process
