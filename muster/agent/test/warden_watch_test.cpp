// Each test forks an agent, whose parent plays the warden.
#include "muster/agent/warden_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "muster/base/fd.h"
#include "muster/process/descendants.h"
#include "muster/process/proc.h"

namespace muster::agent {
namespace {

using namespace std::chrono_literals;

bool is_stopped(pid_t pid) {
  auto stat = process::read_proc_stat(pid);
  return stat && stat->state == 'T';
}

pid_t start_idle() {
  pid_t child = ::fork();
  if (child == 0)
    while (true) ::pause();
  return child;
}

WardenLink::Terms terms_of(Duration lease) {
  WardenLink::Terms terms;
  terms.node = 1;
  terms.lease = lease;
  terms.since = Clock::now();
  return terms;
}

int exit_code_of(pid_t agent) {
  int status = -1;
  EXPECT_EQ(::waitpid(agent, &status, 0), agent);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(WardenWatch, StopsWorkersWhenTheLeaseIsOverAndContinuesThemWhenItIsRenewed) {
  WardenLink link;
  link.set_terms(terms_of(1s));
  pid_t agent = ::fork();
  if (agent == 0) {
    net::EventLoop loop;
    pid_t worker = start_idle();
    int result = 1;
    WardenWatch watch(loop, ::getppid(), -1, link, [](const std::string&) { ::_exit(9); });
    const Deadline deadline = Deadline::in(20s);
    while (!is_stopped(worker) && !deadline.passed()) loop.run_until(Deadline::in(10ms));
    if (is_stopped(worker) && Clock::now() >= link.lease_until()) {
      link.extend_lease(Clock::now() + 60s);
      while (is_stopped(worker) && !deadline.passed()) loop.run_until(Deadline::in(10ms));
      if (!is_stopped(worker)) result = 0;
    }
    ::kill(worker, SIGKILL);
    ::_exit(result);
  }
  EXPECT_EQ(exit_code_of(agent), 0);
}

TEST(WardenWatch, EndsEverythingWhenTheLeaseIsNotRenewed) {
  WardenLink link;
  link.set_terms(terms_of(500ms));
  pid_t agent = ::fork();
  if (agent == 0) {
    net::EventLoop loop;
    bool ended = false;
    WardenWatch watch(loop, ::getppid(), -1, link, [&](const std::string&) { ended = true; });
    for (Deadline deadline = Deadline::in(20s); !ended && !deadline.passed();) loop.run_until(Deadline::in(10ms));
    ::_exit(ended && Clock::now() >= link.lease_until() + 500ms ? 0 : 1);
  }
  EXPECT_EQ(exit_code_of(agent), 0);
}

// The parent of the watching process is stopped from outside, by the test itself.
TEST(WardenWatch, StopsWorkersWithTheWardenAndContinuesThemWithIt) {
  WardenLink link;
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  pid_t warden = ::fork();
  if (warden == 0) {
    const pid_t self = ::getpid();
    const int self_fd = static_cast<int>(::syscall(SYS_pidfd_open, self, 0));
    if (::fork() == 0) {
      pid_t worker = start_idle(), foreign = start_idle();
      ::kill(foreign, SIGSTOP);
      while (!is_stopped(foreign)) ::usleep(1000);
      net::EventLoop loop;
      WardenWatch watch(loop, self, self_fd, link, [](const std::string&) { ::_exit(9); });
      const pid_t all[3] = {::getpid(), worker, foreign};
      if (::write(pids[1], all, sizeof all) != sizeof all) ::_exit(1);
      loop.run();
    }
    while (true) ::pause();
  }
  pid_t all[3];
  ASSERT_EQ(::read(pids[0], all, sizeof all), static_cast<ssize_t>(sizeof all));
  const pid_t agent = all[0], worker = all[1], foreign = all[2];
  auto wait_until = [](const std::function<bool()>& is_so) {
    for (Deadline deadline = Deadline::in(20s); !is_so() && !deadline.passed();) ::usleep(1000);
    return is_so();
  };
  ::kill(warden, SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return is_stopped(worker); }));
  ::kill(warden, SIGCONT);
  EXPECT_TRUE(wait_until([&] { return !is_stopped(worker); }));
  EXPECT_TRUE(is_stopped(foreign)) << "the test has stopped it, not the watch";
  for (pid_t pid : {worker, foreign, agent, warden}) ::kill(pid, SIGKILL);
  ::waitpid(warden, nullptr, 0);
  ::close(pids[0]);
  ::close(pids[1]);
}

}  // namespace
}  // namespace muster::agent
