// The warden forks, so each test runs it in a process of its own and looks at what is left through pipes: the end of
// file comes when the last process that held the other end is gone.
#include "muster/agent/warden.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/process/proc.h"
#include "muster/process/signals.h"

namespace muster::agent {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

struct Pipe {
  Fd read, write;
};
Pipe make_pipe() {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// Runs `agent` under a warden in a child of this process.
class Job {
 public:
  explicit Job(
      const std::function<int(int, int)>& agent, const std::function<void()>& before = [] {},
      const WardenOptions& options = {}) {
    pid_ = ::fork();
    if (pid_ == 0) {
      before();
      ::_exit(run_under_warden(agent, options));
    }
  }
  ~Job() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) wait();
  }
  pid_t pid() const { return pid_; }
  // The wait status of the warden.
  int wait() {
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// The next byte, 0 at the end of file.
char read_byte(const Fd& from) {
  pollfd ready{from.get(), POLLIN, 0};
  const int polled = ::poll(&ready, 1, Deadline::in(kPatience).poll_timeout());
  EXPECT_EQ(polled, 1) << "nothing came";
  char byte = '?';
  if (polled != 1) return byte;
  return ::read(from.get(), &byte, 1) == 1 ? byte : '\0';
}

void write_byte(const Fd& to, char byte) { EXPECT_EQ(::write(to.get(), &byte, 1), 1); }

pid_t read_pid(const Fd& from) {
  pid_t pid = 0;
  EXPECT_EQ(::read(from.get(), &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  return pid;
}

void write_pid(const Fd& to, pid_t pid) {
  EXPECT_EQ(::write(to.get(), &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
}

// A grandchild in a session of its own, for ever: what nobody but a subreaper can find again.
void leave_daemon() {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  ::prctl(PR_SET_NAME, "daemon");
  while (true) ::pause();
}

TEST(Warden, ExitsWithTheAgentsCode) {
  for (int code : {0, 7, 137}) {
    Job job([&](int, int) { return code; });
    int status = job.wait();
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
}

TEST(Warden, AgentKnowsTheWardenAndHasASessionOfItsOwn) {
  Pipe pipe = make_pipe();
  Job job([&](int warden, int) {
    write_pid(pipe.write, warden);
    write_byte(pipe.write, ::getsid(0) == ::getpid() && ::getppid() == warden ? 'y' : 'n');
    return 0;
  });
  EXPECT_EQ(read_pid(pipe.read), job.pid());
  EXPECT_EQ(read_byte(pipe.read), 'y');
  job.wait();
}

TEST(Warden, PassesEachSignalOnExactlyOnce) {
  Pipe pipe = make_pipe();
  Job job([&](int, int) {
    auto signals = process::SignalQueue::open(forwarded_signals());
    write_byte(pipe.write, 'r');
    while (true) {
      pollfd ready{signals->fd(), POLLIN, 0};
      ::poll(&ready, 1, -1);
      while (auto received = signals->next()) {
        write_byte(pipe.write, static_cast<char>(received->signal));
        if (received->signal == SIGTERM) return 3;
      }
    }
  });
  ASSERT_EQ(read_byte(pipe.read), 'r');
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT, SIGRTMIN + 3, SIGTERM}) {
    ::kill(job.pid(), signal);
    EXPECT_EQ(read_byte(pipe.read), signal);
  }
  EXPECT_EQ(WEXITSTATUS(job.wait()), 3);
  pipe.write.reset();
  EXPECT_EQ(read_byte(pipe.read), '\0') << "a signal came twice";
}

TEST(Warden, KeepsIgnoringWhatWasIgnored) {
  Pipe pipe = make_pipe();
  Job job(
      [&](int warden, int) {
        auto signals = process::SignalQueue::open(forwarded_signals());
        ::kill(warden, SIGHUP);
        ::kill(warden, SIGINT);
        ::kill(warden, SIGTERM);
        while (true) {
          pollfd ready{signals->fd(), POLLIN, 0};
          ::poll(&ready, 1, -1);
          while (auto received = signals->next())
            if (received->signal == SIGTERM)
              return 0;
            else
              return received->signal;
        }
      },
      [] {
        ::signal(SIGHUP, SIG_IGN);  // as nohup does
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGINT);
        ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
      });
  int status = job.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Warden, EndsEverythingWhenTheAgentIsKilled) {
  Pipe life = make_pipe();
  Pipe said = make_pipe();
  Job job(
      [&](int, int) {
        leave_daemon();
        ::raise(SIGKILL);
        return 0;
      },
      [&] { ::dup2(said.write.get(), STDERR_FILENO); });
  life.write.reset();
  EXPECT_EQ(read_byte(life.read), '\0');
  int status = job.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 125);
  char text[200] = {};
  ASSERT_GT(::read(said.read.get(), text, sizeof text - 1), 0);
  EXPECT_NE(std::string(text).find("was killed by SIGKILL; its workers were ended"), std::string::npos) << text;
}

TEST(Warden, EndsWhatAnAgentThatExitedLeftBehind) {
  Pipe life = make_pipe();
  Job job([&](int, int) {
    leave_daemon();
    return 4;
  });
  life.write.reset();
  EXPECT_EQ(read_byte(life.read), '\0');
  EXPECT_EQ(WEXITSTATUS(job.wait()), 4);
}

TEST(Warden, AgentEndsEverythingWhenTheWardenIsKilled) {
  Pipe life = make_pipe();
  Pipe ready = make_pipe();
  Job job([&](int, int warden_fd) {
    leave_daemon();
    write_byte(ready.write, 'r');
    pollfd gone{warden_fd, POLLIN, 0};
    ::poll(&gone, 1, -1);
    end_without_warden();
    return 0;
  });
  life.write.reset();
  ready.write.reset();
  ASSERT_EQ(read_byte(ready.read), 'r');
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(read_byte(life.read), '\0');
}

TEST(Warden, AStoppedAgentNoticesTheWardensEnd) {
  Pipe life = make_pipe();
  Pipe ready = make_pipe();
  Job job([&](int, int warden_fd) {
    write_pid(ready.write, ::getpid());
    pollfd gone{warden_fd, POLLIN, 0};
    ::poll(&gone, 1, -1);
    end_without_warden();
    return 0;
  });
  life.write.reset();
  ::kill(read_pid(ready.read), SIGSTOP);
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(read_byte(life.read), '\0');
}

TEST(Warden, SuspendsAfterTheAgentAndResumesIt) {
  Pipe pipe = make_pipe();
  Job job([&](int, int) {
    auto signals = process::SignalQueue::open(forwarded_signals());
    write_byte(pipe.write, 'r');
    while (true) {
      pollfd ready{signals->fd(), POLLIN, 0};
      ::poll(&ready, 1, -1);
      while (auto received = signals->next()) {
        write_byte(pipe.write, received->signal == SIGTSTP ? 's' : 'c');
        if (received->signal == SIGCONT) return 0;
        ::raise(SIGSTOP);
      }
    }
  });
  ASSERT_EQ(read_byte(pipe.read), 'r');
  ::kill(job.pid(), SIGTSTP);
  EXPECT_EQ(read_byte(pipe.read), 's');
  int status = 0;
  ASSERT_EQ(::waitpid(job.pid(), &status, WUNTRACED), job.pid());
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(job.pid(), SIGCONT);
  EXPECT_EQ(read_byte(pipe.read), 'c');
  EXPECT_EQ(WEXITSTATUS(job.wait()), 0);
}

bool becomes(pid_t pid, bool stopped) {
  for (Deadline deadline = Deadline::in(kPatience); !deadline.passed(); ::usleep(1000)) {
    auto stat = process::read_proc_stat(pid);
    if (stat && (stat->state == 'T') == stopped) return true;
  }
  return false;
}

// Tells both pids. Nothing but the worker holds the end of `life` then.
int agent_with_worker(const Pipe& ready, Pipe& life) {
  pid_t worker = ::fork();
  if (worker == 0)
    while (true) ::pause();
  life.write.reset();
  write_pid(ready.write, ::getpid());
  write_pid(ready.write, worker);
  while (true) ::pause();
}

TEST(Warden, StopsTheWorkersOfAnAgentThatIsStoppedUntilItGoesOn) {
  Pipe ready = make_pipe(), life = make_pipe();
  Job job([&](int, int) { return agent_with_worker(ready, life); });
  const pid_t agent = read_pid(ready.read), worker = read_pid(ready.read);
  ::kill(agent, SIGSTOP);
  EXPECT_TRUE(becomes(worker, true));
  ::kill(agent, SIGCONT);
  EXPECT_TRUE(becomes(worker, false));
  ::kill(agent, SIGKILL);
  EXPECT_EQ(WEXITSTATUS(job.wait()), 125);
}

TEST(Warden, ASecondStopSignalEndsTheJobOfAnAgentThatIsStopped) {
  Pipe ready = make_pipe(), life = make_pipe(), said = make_pipe();
  Job job([&](int, int) { return agent_with_worker(ready, life); }, [&] { ::dup2(said.write.get(), STDERR_FILENO); });
  life.write.reset();
  const pid_t agent = read_pid(ready.read);
  ::kill(agent, SIGSTOP);
  ASSERT_TRUE(becomes(agent, true));
  ::kill(job.pid(), SIGINT);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(read_byte(life.read), '\0');
  EXPECT_EQ(WEXITSTATUS(job.wait()), 128 + SIGINT) << "of two that wait the kernel delivers the lower one first";
  char text[300] = {};
  ASSERT_GT(::read(said.read.get(), text, sizeof text - 1), 0);
  EXPECT_NE(std::string(text).find("is stopped; everything of the job on this node was ended"), std::string::npos)
      << text;
}

// As in an uninterruptible sleep: SIGKILL does not end it as long as a tracer holds it in its exit.
TEST(Warden, DoesNotWaitForAnAgentThatDoesNotDie) {
  Pipe ready = make_pipe(), life = make_pipe(), said = make_pipe();
  Job job([&](int, int) { return agent_with_worker(ready, life); }, [&] { ::dup2(said.write.get(), STDERR_FILENO); });
  life.write.reset();
  const pid_t agent = read_pid(ready.read);
  if (::ptrace(PTRACE_SEIZE, agent, nullptr, PTRACE_O_TRACEEXIT) != 0) GTEST_SKIP() << "ptrace is not permitted";
  ::kill(agent, SIGSTOP);
  ::kill(job.pid(), SIGINT);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(read_byte(life.read), '\0') << "the worker ends";
  EXPECT_EQ(WEXITSTATUS(job.wait()), 128 + SIGINT);
  char text[1000] = {};
  ASSERT_GT(::read(said.read.get(), text, sizeof text - 1), 0);
  EXPECT_NE(std::string(text).find("hangs in the kernel"), std::string::npos) << text;
  auto stat = process::read_proc_stat(agent);
  EXPECT_TRUE(stat && !stat->ended()) << "it was to outlive the warden";
  ::ptrace(PTRACE_CONT, agent, nullptr, nullptr);
}

// As with a thread that writes to a dead file system.
TEST(Warden, DoesNotWaitForAnAgentThatCannotExit) {
  Pipe ready = make_pipe(), go = make_pipe(), said = make_pipe();
  WardenLink link;
  Job job(
      [&](int, int) {
        write_pid(ready.write, ::getpid());
        read_byte(go.read);
        return 7;
      },
      [&] { ::dup2(said.write.get(), STDERR_FILENO); }, {.link = &link});
  const pid_t agent = read_pid(ready.read);
  if (::ptrace(PTRACE_SEIZE, agent, nullptr, PTRACE_O_TRACEEXIT) != 0) GTEST_SKIP() << "ptrace is not permitted";
  write_byte(go.write, '!');
  EXPECT_EQ(WEXITSTATUS(job.wait()), 7);
  char text[1000] = {};
  ASSERT_GT(::read(said.read.get(), text, sizeof text - 1), 0);
  EXPECT_NE(std::string(text).find("hangs in the kernel"), std::string::npos) << text;
  ::ptrace(PTRACE_CONT, agent, nullptr, nullptr);
}

}  // namespace
}  // namespace muster::agent
