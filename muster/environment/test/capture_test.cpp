#include "muster/environment/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "muster/base/fd.h"

namespace muster::environment {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Captures : public ::testing::Test {
 protected:
  Captures() {
    char name[] = "/tmp/muster-capture-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~Captures() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& text) {
    std::string path = directory_ + "/" + name;
    EXPECT_TRUE(write_whole_file(path, text));
    return path;
  }
  Capture run(const std::vector<std::string>& prologues, const CaptureOptions& options = {.time = 60s}) {
    setup_.prologues = prologues;
    return capture(setup_, before_, options);
  }
  std::optional<std::string> value(const std::string& name, const std::vector<std::string>& prologues) {
    Capture done = run(prologues);
    if (!done.environment) {
      ADD_FAILURE() << done.environment.error().text() << "\n" << done.output;
      return std::nullopt;
    }
    for (const auto& [n, v] : *done.environment)
      if (n == name) return v;
    return std::nullopt;
  }
  std::string error(const std::vector<std::string>& prologues) {
    Capture done = run(prologues);
    return done.environment ? "accepted" : done.environment.error().text();
  }

  std::string directory_;
  environment::Setup setup_;
  Environment before_ = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"PWD", "/here"}, {"SHLVL", "1"}};
};

TEST_F(Captures, WhatProloguesLeave) {
  const std::string script =
      file("setup.sh", "export A=from-file\nB=not-exported\nexport DIR=$(dirname \"${BASH_SOURCE[0]}\")\n");
  EXPECT_EQ(value("A", {script}), "from-file");
  EXPECT_EQ(value("B", {script}), std::nullopt);
  EXPECT_EQ(value("DIR", {script}), directory_);
  EXPECT_EQ(value("A", {script, "export A=$A-and-line"}), "from-file-and-line");
  EXPECT_EQ(value("A", {"export A=$'two\nlines'"}), "two\nlines");
  EXPECT_EQ(value("BASH_FUNC_f%%", {"f() { echo hello; }; export -f f"}), "() {  echo hello\n}");
}

TEST_F(Captures, NothingOfTheShellStays) {
  before_.add("_", "/bin/before");
  EXPECT_EQ(value("PWD", {"cd /"}), "/here");
  EXPECT_EQ(value("SHLVL", {"true"}), "1");
  EXPECT_EQ(value("_", {"true"}), "/bin/before");
  Capture done = run({"set -a; x=1; f() { :; }"});
  ASSERT_TRUE(done.environment);
  for (const auto& [name, v] : *done.environment) EXPECT_THAT(name, ::testing::Not(HasSubstr("__muster"))) << v;
}

TEST_F(Captures, WhateverTheUsersShellOptionsAre) {
  for (const char* options : {"set -e", "set -u", "set -f", "set -euo pipefail", "set -o posix", "set -x", "IFS=xyz/e",
                              "shopt -s nullglob failglob", "set -a", "PATH=/nowhere", "export PATH=", "exec 1>&- 2>&-",
                              "trap - ERR", "printf() { return 1; }", "set -- a b c"})
    EXPECT_EQ(value("A", {options, "export A=1"}), "1") << options;
}

TEST_F(Captures, SetVariablesAreThereFirstAndLast) {
  setup_.set = {{"A", "given"}, {"B", "given"}};
  EXPECT_EQ(value("SEEN", {"export SEEN=$A A=changed"}), "given");
  EXPECT_EQ(value("A", {"export A=changed"}), "given");
  setup_.prologues.clear();
  Capture done = capture(setup_, before_, {});
  ASSERT_TRUE(done.environment);
  EXPECT_EQ(done.environment->size(), before_.size() + 2);
}

TEST_F(Captures, AFailingLineIsNamed) {
  const std::string script = file("setup.sh", "export A=1\n\n  ls /nope-a-b  # here\nexport B=2\n");
  Capture done = run({"true", script});
  ASSERT_FALSE(done.environment);
  EXPECT_EQ(done.environment.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(done.environment.error().text(),
            "line 3 of " + script + ", `ls /nope-a-b  # here`, failed with exit code 2");
  EXPECT_THAT(done.output, HasSubstr("/nope-a-b"));
  EXPECT_EQ(error({"false"}), "--prologue `false` failed with exit code 1");
  EXPECT_EQ(error({"WANDB_API_KEY=hush false"}), "--prologue `WANDB_API_KEY=***` failed with exit code 1");
  EXPECT_EQ(error({"true\nfalse\ntrue"}), "line 2 of --prologue, `false`, failed with exit code 1");
  EXPECT_EQ(error({"source " + script}), "line 3 of " + script + ", `ls /nope-a-b  # here`, failed with exit code 2");
  EXPECT_EQ(
      error({"no-such-command-a-b"}),
      "--prologue `no-such-command-a-b` failed with exit code 127; that node has neither such a command nor such a "
      "file");
}

TEST_F(Captures, WhatAPrologueSaysIsNoArgumentOfAnything) {
  const std::string seen = directory_ + "/seen";
  const std::string look = "cat /proc/$$/cmdline /proc/$PPID/cmdline > " + seen + "; export A=hush";
  EXPECT_EQ(value("A", {look}), "hush");
  EXPECT_THAT(*read_file(seen), HasSubstr("--norc"));
  EXPECT_THAT(*read_file(seen), ::testing::Not(HasSubstr("hush")));
}

TEST_F(Captures, NothingIsOnItsStdin) {
  before_.add("BASH_ENV", file("env.sh", "cat > " + directory_ + "/eaten\n"));
  EXPECT_EQ(value("A", {"export A=$(cat)-$(readlink /proc/$$/fd/0)"}), "-/dev/null");
}

TEST_F(Captures, TextsOfAnySizeAndBytes) {
  const std::string bytes = "\x01\x7f\xff\\n\xc3 \"x $y\t\r\n\n ";
  EXPECT_EQ(value("A", {"export A='" + bytes + "'", "true"}), bytes);
  EXPECT_EQ(value("A", {": " + std::string(300000, 'x') + "\nexport A=1"}), "1");
}

TEST_F(Captures, WhatSetMinusEForgivesIsForgiven) {
  for (const char* line : {"false || true", "if false; then :; fi", "! true", "[ -d /nope ] && cd /nope",
                           "false && true", "while false; do :; done", "f() { false; true; }; f", "x=$(false; true)"}) {
    EXPECT_EQ(value("A", {std::string("export A=1\n") + line}), "1") << line;
    EXPECT_EQ(value("A", {file("s.sh", std::string("export A=1\n") + line + "\n")}), "1") << line;
  }
  // Someone else's file is his business, as long as it says that all is well.
  const std::string theirs = file("theirs.sh", "false\ntrue\n");
  EXPECT_EQ(value("A", {file("mine.sh", "source " + theirs + "\nexport A=1\n")}), "1");
}

TEST_F(Captures, AFileThatReturnsOrCannotBeRead) {
  const std::string returns = file("returns.sh", "true\nreturn 3\n");
  EXPECT_EQ(error({returns}), "`source " + returns + "` failed with exit code 3");
  const std::string broken = file("broken.sh", "true\nif x; then\n");
  EXPECT_THAT(error({broken}), StartsWith("`source " + broken + "` failed with exit code"));
  EXPECT_THAT(run({broken}).output, HasSubstr("syntax error"));
  EXPECT_EQ(value("A", {file("early.sh", "export A=1\nreturn\nfalse\n")}), "1");
}

TEST_F(Captures, AShellThatGoesAway) {
  const std::string exits = file("exits.sh", "true\nexit 3\n");
  EXPECT_EQ(error({exits}), "line 2 of " + exits + ", `exit 3`, ends the set-up with exit code 3");
  EXPECT_THAT(error({"exit"}), StartsWith("--prologue `exit` ends the set-up with exit code 0; "));
  EXPECT_EQ(value("A", {"(exit 3) || export A=1"}), "1");
  EXPECT_THAT(error({"exec true"}), StartsWith("`exec true` ended the shell (exit code 0) before its environment"));
  EXPECT_EQ(error({"kill -KILL $$"}), "`kill -KILL $$` was ended by SIGKILL (signal 9)");
  EXPECT_THAT(error({"f() { set -e; false; }; f"}), HasSubstr("set -e inside of functions"));
}

TEST_F(Captures, FloodsAndGiants) {
  Capture flood = run({"yes 'a line of some length' | head -c 20000000; export A=1"});
  ASSERT_TRUE(flood.environment) << flood.environment.error().text();
  EXPECT_LT(flood.output.size(), size_t{256} << 10);
  EXPECT_THAT(flood.output, StartsWith("a line"));
  EXPECT_EQ(value("BIG", {"export BIG=$(head -c 100000 /dev/zero | tr '\\0' x)"}), std::string(100000, 'x'));
  const std::string many = "for i in {1..10}; do export V$i=$(head -c 100000 /dev/zero | tr '\\0' x); done";
  EXPECT_EQ(value("V10", {many})->size(), 100000U);
  Capture giant = run({"export BIG=$(head -c 300000 /dev/zero | tr '\\0' x); builtin true"});
  ASSERT_FALSE(giant.environment);
  EXPECT_THAT(giant.environment.error().text(), StartsWith("the environment that the set-up leaves cannot be read"));
}

TEST_F(Captures, WhatRunsInTheBackgroundIsNotWaitedForAndGoesOn) {
  Capture done = run({"sleep 1000 & export KEPT=$!"});
  ASSERT_TRUE(done.environment) << done.environment.error().text();
  pid_t kept = 0;
  for (const auto& [name, v] : *done.environment)
    if (name == "KEPT") kept = std::stoi(v);
  ASSERT_GT(kept, 0);
  EXPECT_EQ(::kill(kept, SIGKILL), 0);
  EXPECT_EQ(::waitpid(kept, nullptr, 0), kept);  // it is ours now
}

TEST_F(Captures, TimeIsLimitedAndNothingStays) {
  const std::string pids = directory_ + "/pids";
  Capture done =
      run({"sleep 1000 & setsid sleep 1000 & echo $! > " + pids + "; echo waiting; sleep 1000"}, {.time = 500ms});
  ASSERT_FALSE(done.environment);
  EXPECT_EQ(done.environment.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(done.output, "waiting\n");
  auto pid = read_file(pids);
  ASSERT_TRUE(pid);
  EXPECT_EQ(::kill(std::stoi(*pid), 0), -1);
}

TEST_F(Captures, ItEndsWithTheLauncher) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd read(ends[0]), write(ends[1]);
  ASSERT_TRUE(write_all(write.get(), "x", 1));  // something unread is no end
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::pause();
    ::_exit(0);
  }
  write.reset();
  before_.add("LAUNCHER", std::to_string(launcher));
  Capture done = run({"kill $LAUNCHER; sleep 1000"}, {.time = 60s, .launcher = read.get()});
  ASSERT_FALSE(done.environment);
  EXPECT_EQ(done.environment.error().kind, ErrorKind::kPeer);
  ::waitpid(launcher, nullptr, 0);
}

TEST_F(Captures, ASignalEndsItAndIsNamed) {
  before_.add("MUSTER", std::to_string(::getpid()));
  for (int signal : {SIGINT, SIGTERM}) {
    Capture done = run({"true", fmt::format("setsid sleep 1000 & kill -{} $MUSTER; sleep 1000", signal)});
    ASSERT_FALSE(done.environment);
    const Error& error = done.environment.error();
    EXPECT_EQ(error.kind, ErrorKind::kInterrupted);
    EXPECT_EQ(exit_code(error), 128 + signal);
    EXPECT_THAT(error.text(), StartsWith(signal == SIGINT ? "SIGINT interrupted the set-up, at `setsid sleep"
                                                          : "SIGTERM interrupted the set-up, at `setsid sleep"));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nothing is below us any more
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_EQ(::sigismember(&blocked, signal), 0);
  }
}

TEST_F(Captures, ASignalThatIsIgnoredStaysSo) {
  before_.add("MUSTER", std::to_string(::getpid()));
  auto* old = ::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(value("A", {"kill -INT $MUSTER; export A=1"}), "1");
  ::signal(SIGINT, old);
}

// Whoever is killed: muster (the parent of the keeper), or the keeper.
TEST_F(Captures, NothingStaysWhenMusterIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, 0), 0);
  Fd read(ends[0]), write(ends[1]);
  const pid_t muster = ::fork();
  if (muster == 0) {
    // What is alive in the set-up holds the pipe open: its stdout is ours to give.
    run({"exec 1>/proc/" + std::to_string(::getppid()) + "/fd/" + std::to_string(ends[1]) +
         "; echo up; setsid sleep 1000 & sleep 1000"});
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(read.get(), &byte, 1), 1);
  write.reset();
  ASSERT_EQ(::kill(muster, SIGKILL), 0);
  ::waitpid(muster, nullptr, 0);
  while (::read(read.get(), &byte, 1) > 0) {
  }  // until the last of them is gone; a test that hangs has failed
}

TEST_F(Captures, SlowStepsAreSaid) {
  const std::string said = directory_ + "/said";
  CaptureOptions options{.time = 60s};
  options.slow = [&](const std::string& step) {
    Fd file(::open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    (void)write_all(file.get(), (step + "\n").data(), step.size() + 1);
  };
  ASSERT_TRUE(run({"sleep 1.2", "sleep 0.2 # second"}, options).environment);
  EXPECT_EQ(*read_file(said), "sleep 1.2\nsleep 0.2 # second\n");
}

}  // namespace
}  // namespace muster::environment
