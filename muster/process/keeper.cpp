#include "muster/process/keeper.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <vector>

#include "muster/base/fd.h"
#include "muster/base/pipe.h"
#include "muster/process/descendants.h"
#include "muster/process/signals.h"

namespace muster::process {
namespace {

constexpr auto kKillTime = std::chrono::seconds(5);

// What asks this process to end is read from `queue` while this lives; what is ignored or blocked stays so.
class Interruptions {
 public:
  explicit Interruptions(bool wanted) {
    ::sigprocmask(SIG_SETMASK, nullptr, &before_);
    std::vector<int> signals;
    for (int signal : {SIGINT, SIGTERM}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (wanted && action.sa_handler != SIG_IGN && ::sigismember(&before_, signal) == 0) signals.push_back(signal);
    }
    if (signals.empty()) return;
    if (auto queue = SignalQueue::open(signals)) queue_ = *std::move(queue);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() { leave(); }

  void leave() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return queue_ ? queue_->fd() : -1; }
  // The first that came; 0: none did.
  int signal() {
    while (auto received = queue_ ? queue_->next() : std::nullopt)
      if (first_ == 0) first_ = received->signal;
    return first_;
  }

 private:
  sigset_t before_{};
  std::optional<SignalQueue> queue_;
  int first_ = 0;
};

// Blocks until the keeper hangs up; it has its own deadline. Hangs up itself, on `hold`, when a signal comes. Empty: it
// has not told all by our deadline.
std::string read_to_end(int fd, Interruptions& interruptions, Fd& hold, Deadline deadline) {
  std::string bytes;
  while (!deadline.passed()) {
    std::array<pollfd, 2> watched = {{{fd, POLLIN, 0}, {interruptions.fd(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), deadline.poll_timeout()) <= 0) continue;
    if (interruptions.signal() != 0) hold.reset();
    if (watched[0].revents == 0) continue;
    char buffer[64 << 10];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return bytes;
    if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR && errno != EAGAIN) break;
  }
  return {};
}

[[noreturn]] void keep(const std::function<std::string(int)>& job, int muster, int result) {
  ::setsid();  // what a terminal sends is for muster
  if (!become_subreaper()) ::_exit(1);
  const std::string told = job(muster);
  (void)write_all(result, told.data(), told.size());
  ::_exit(0);
}

}  // namespace

Result<Kept> run_kept(const std::function<std::string(int muster)>& job, bool interruptible, Deadline deadline) {
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody's exit status is kept
  MUSTER_TRY(Pipe result, make_pipe());
  MUSTER_TRY(Pipe hold, make_pipe());  // hung up by us, or by our end
  Interruptions interruptions(interruptible);
  ::fflush(nullptr);
  const pid_t keeper = ::fork();
  if (keeper < 0) return no_process_error(errno, "fork");
  if (keeper == 0) {
    interruptions.leave();
    hold.write.reset();
    keep(job, hold.read.get(), result.write.get());
  }
  result.write.reset();
  Kept kept{.told = read_to_end(result.read.get(), interruptions, hold.write, deadline)};
  kept.interrupted = interruptions.signal();
  const bool killed = kept.told.empty() || kept.interrupted != 0;
  if (killed) kill_descendants(Deadline::in(kKillTime));
  // Who has told all is about to exit; who hangs in the kernel does not even die of SIGKILL, and is left behind.
  while (::waitpid(keeper, nullptr, killed ? WNOHANG : 0) < 0 && errno == EINTR) {
  }
  return kept;
}

}  // namespace muster::process
