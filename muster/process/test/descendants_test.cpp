#include "muster/process/descendants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/process/proc.h"

namespace muster::process {
namespace {

using namespace std::chrono_literals;
using test::make_pipe;
using test::shell;

bool alive(pid_t pid) {
  auto stat = read_proc_stat(pid);
  return stat && !stat->ended();
}

// Runs a script whose processes all hold one pipe; what is read from it after its lines ends when they have.
struct Family {
  Child worker;
  Fd life;

  pid_t pid_from_line() { return static_cast<pid_t>(parse_int(test::read_line(life.get())).value_or(0)); }
  // True when nobody holds the pipe any more: an event, with a generous limit.
  bool over() {
    pollfd entry{life.get(), POLLIN, 0};
    char c;
    return poll(&entry, 1, 20'000) == 1 && read(life.get(), &c, 1) == 0;
  }
};

Family start(const std::string& script, const std::string& marker = "") {
  test::Pipe pipe = make_pipe();
  SpawnSpec spec = shell(script);
  spec.stdout_fd = pipe.write.get();
  if (!marker.empty()) spec.environment.add("MARK", marker);
  auto child = spawn(spec);
  MUSTER_CHECK(child.ok());
  return {*std::move(child), std::move(pipe.read)};
}

class Descendants : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(become_subreaper().ok()); }
  void TearDown() override {
    EXPECT_EQ(kill_descendants(Deadline::in(20s)), std::vector<pid_t>{});
    EXPECT_TRUE(descendants().empty());
  }
};

// A daemon as daemon(3) makes it: a session of its own, and its parent gone.
const char* const kDaemon = "setsid sh -c '(trap \"\" TERM HUP INT; echo $$; exec sleep 1000) & ' & wait; ";
const char* const kDaemonPid = "setsid sh -c '{ exec sh -c \"echo \\$\\$; exec sleep 1000\"; } & ' & wait; ";

TEST_F(Descendants, OnesThatEndByThemselvesAreWaitedFor) {
  Family stays = start("echo $$; exec sleep 1000"), goes = start("echo $$; read line <&0; exit 0");
  const pid_t stayed = stays.pid_from_line(), gone = goes.pid_from_line();
  EXPECT_EQ(still_running(Deadline::in(20s), [](pid_t) { return false; }), std::vector<pid_t>{}) << "at once";
  EXPECT_EQ(still_running(Deadline::in(20s), [&](pid_t pid) { return pid == gone; }), std::vector<pid_t>{});
  EXPECT_EQ(still_running(Deadline::in(10ms), [](pid_t) { return true; }), std::vector<pid_t>{stayed});
}

TEST_F(Descendants, NoneAtFirst) {
  EXPECT_TRUE(descendants().empty());
  EXPECT_TRUE(kill_descendants(Deadline::in(0s)).empty());
}

TEST_F(Descendants, SeesDaemonsToo) {
  Family family = start(std::string(kDaemonPid) + "exec sleep 1000");
  pid_t daemon = family.pid_from_line();
  ASSERT_TRUE(alive(daemon));
  auto all = descendants();
  EXPECT_EQ(std::count(all.begin(), all.end(), daemon), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), family.worker.pid), 1);
  EXPECT_NE(getsid(daemon), family.worker.pid);
  EXPECT_TRUE(kill_descendants(Deadline::in(20s)).empty());
  EXPECT_TRUE(family.over());
}

TEST_F(Descendants, KillsWhatIsStoppedOrIgnoresSignals) {
  Family family = start(std::string(kDaemon) + "trap '' TERM; echo worker; kill -STOP $$; sleep 1000");
  for (int line = 0; line < 2; ++line) EXPECT_NE(test::read_line(family.life.get()), "");
  EXPECT_TRUE(kill_descendants(Deadline::in(20s)).empty());
  EXPECT_TRUE(family.over());
}

TEST_F(Descendants, KeepsTheZombiesOfOthers) {
  Family family = start("exit 3");
  Family other = start("exit 4");
  EXPECT_TRUE(family.over());
  EXPECT_TRUE(kill_descendants(Deadline::in(20s), {family.worker.pid}).empty());
  EXPECT_EQ(test::await_exit(family.worker), ExitStatus{.code = 3});
  EXPECT_FALSE(try_reap(other.worker));  // that one was not to be kept
}

TEST_F(Descendants, KillsButDoesNotReapAKeptOne) {
  Family family = start("echo; exec sleep 1000");
  test::read_line(family.life.get());
  EXPECT_TRUE(kill_descendants(Deadline::in(20s), {family.worker.pid}).empty());
  EXPECT_EQ(test::await_exit(family.worker), ExitStatus{.signal = SIGKILL});
}

TEST_F(Descendants, OnlyTheWantedOnes) {
  Family lost = start(std::string(kDaemonPid) + "exit 1", "lost");
  pid_t daemon = lost.pid_from_line();
  Family other = start(std::string(kDaemonPid) + "exec sleep 1000", "other");
  pid_t others_daemon = other.pid_from_line();
  EXPECT_EQ(test::await_exit(lost.worker), ExitStatus{.code = 1});

  auto wanted = [&](pid_t pid) { return belongs_to(pid, lost.worker.pid, "MARK=lost"); };
  EXPECT_TRUE(kill_descendants(Deadline::in(20s), {other.worker.pid}, wanted).empty());
  EXPECT_TRUE(lost.over());
  EXPECT_FALSE(alive(daemon));
  EXPECT_TRUE(alive(others_daemon));
  EXPECT_TRUE(alive(other.worker.pid));
}

TEST_F(Descendants, AForkingFamilyIsCaught) {
  // Every process starts its successor in a new session and ends, three lines of them: a list is old when it is read.
  test::TempDir dir;
  std::string script = dir.write("again", "echo; setsid sh $0 & exit");
  Family family = start(fmt::format("for i in 1 2 3; do sh {} & done; wait", script));
  for (int generation = 0; generation < 30; ++generation) test::read_line(family.life.get());
  EXPECT_TRUE(kill_descendants(Deadline::in(20s)).empty());
  EXPECT_TRUE(descendants().empty());
}

TEST_F(Descendants, SaysWhatIsLeftAfterTheDeadline) {
  Family family = start("echo; exec sleep 1000");
  test::read_line(family.life.get());
  EXPECT_EQ(kill_descendants(Deadline::at(TimePoint::min())), std::vector<pid_t>{family.worker.pid});
  EXPECT_TRUE(alive(family.worker.pid));
}

TEST_F(Descendants, BelongsTo) {
  Family family = start("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000", "m-1");
  pid_t child = family.pid_from_line();
  EXPECT_TRUE(belongs_to(family.worker.pid, family.worker.pid, ""));
  EXPECT_FALSE(belongs_to(child, family.worker.pid, "MARK=m"));
  EXPECT_TRUE(belongs_to(child, family.worker.pid, "MARK=m-1"));
  EXPECT_FALSE(belongs_to(getpid(), family.worker.pid, "MARK=m-1"));
  EXPECT_FALSE(belongs_to(1 << 22, family.worker.pid, "MARK=m-1"));
}

}  // namespace
}  // namespace muster::process
