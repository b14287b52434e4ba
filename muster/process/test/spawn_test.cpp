#include "muster/process/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/process/descendants.h"

namespace muster::process {
namespace {

using namespace std::chrono_literals;
using test::await_exit;
using test::make_pipe;
using test::output_of;
using test::read_all;
using test::shell;
using ::testing::HasSubstr;

TEST(Spawn, ExitCodesAndSignals) {
  auto exits = spawn(shell("exit 7"));
  ASSERT_TRUE(exits.ok());
  EXPECT_EQ(await_exit(*exits), ExitStatus{.code = 7});
  auto killed = spawn(shell("kill -KILL $$"));
  ASSERT_TRUE(killed.ok());
  EXPECT_EQ(await_exit(*killed), ExitStatus{.signal = SIGKILL});
}

TEST(Spawn, ReapsOnceAndNeverBlocks) {
  test::Pipe pipe = make_pipe();
  SpawnSpec spec = shell("read line");
  spec.stdin_fd = pipe.read.get();
  auto child = spawn(spec);
  ASSERT_TRUE(child.ok());
  EXPECT_FALSE(try_reap(*child));
  pipe.write.reset();
  EXPECT_EQ(await_exit(*child), ExitStatus{.code = 1});
  EXPECT_FALSE(try_reap(*child));
}

TEST(Spawn, ArgumentsAndEnvironmentAreExactlyTheseGiven) {
  SpawnSpec spec{.program = "/usr/bin/env", .argv = {"whatever"}, .environment = {{"B", "2 2"}, {"A", ""}}};
  EXPECT_EQ(output_of(spec), "B=2 2\nA=\n");
  spec = shell("printf '%s|' \"$0\" \"$@\"");
  spec.argv.insert(spec.argv.end(), {"zero", "", "a b", "*"});
  EXPECT_EQ(output_of(spec), "zero||a b|*|");
}

TEST(Spawn, Directory) {
  SpawnSpec spec = shell("pwd");
  spec.directory = "/usr";
  EXPECT_EQ(output_of(spec), "/usr\n");
  spec.directory = "/nonexistent";
  auto failed = spawn(spec);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "cannot change to the directory /nonexistent: No such file or directory");
}

TEST(Spawn, AsManyOpenFilesAsGiven) {
  rlimit ours{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &ours), 0);
  SpawnSpec spec = shell("ulimit -n; ulimit -Hn");
  EXPECT_EQ(output_of(spec), fmt::format("{}\n{}\n", ours.rlim_cur, ours.rlim_max));
  spec.open_files = 123;
  EXPECT_EQ(output_of(spec), fmt::format("123\n{}\n", ours.rlim_max));
  spec.open_files = UINT64_MAX;
  EXPECT_EQ(output_of(spec), fmt::format("{0}\n{0}\n", ours.rlim_max)) << "no more than may be";
}

TEST(Spawn, StdinIsNullUnlessGiven) { EXPECT_EQ(output_of(shell("readlink /proc/$$/fd/0")), "/dev/null\n"); }

TEST(Spawn, NoDescriptorButThree) {
  int open_for_all = open("/dev/zero", O_RDONLY);  // not close-on-exec, as an inherited one would be
  ASSERT_GT(open_for_all, 2);
  SpawnSpec spec{.program = "/bin/ls", .argv = {"ls", "/proc/self/fd"}};
  EXPECT_EQ(output_of(spec), "0\n1\n2\n3\n");  // 3 is ls's own
  close(open_for_all);
}

// Descriptors given may be 0 to 2 themselves, also crosswise. Done in a forked child, as it replaces them.
TEST(Spawn, DescriptorsCrossed) {
  test::Pipe first = make_pipe();
  test::Pipe second = make_pipe();
  pid_t helper = fork();
  ASSERT_GE(helper, 0);
  if (helper == 0) {
    dup2(first.write.get(), 1);
    dup2(second.write.get(), 2);
    SpawnSpec spec = shell("echo out; echo err >&2");
    spec.stdout_fd = 2;
    spec.stderr_fd = 1;
    auto child = spawn(spec);
    _exit(child.ok() && await_exit(*child)->success() ? 0 : 1);
  }
  first.write.reset();
  second.write.reset();
  EXPECT_EQ(read_all(first.read.get()), "err\n");
  EXPECT_EQ(read_all(second.read.get()), "out\n");
  int status = 0;
  EXPECT_EQ(waitpid(helper, &status, 0), helper);
  EXPECT_EQ(status, 0);
}

// The same descriptor in its own place, close-on-exec: it must stay open. And 0 to 2 closed in the caller.
TEST(Spawn, DescriptorsInPlaceAndClosed) {
  test::Pipe pipe = make_pipe();
  pid_t helper = fork();
  ASSERT_GE(helper, 0);
  if (helper == 0) {
    close(0);
    close(2);
    dup3(pipe.write.get(), 1, O_CLOEXEC);
    SpawnSpec spec = shell("echo out; readlink /proc/$$/fd/0; test -e /proc/$$/fd/2 || echo no stderr");
    spec.stdout_fd = 1;
    auto child = spawn(spec);
    _exit(child.ok() && await_exit(*child)->success() ? 0 : 1);
  }
  pipe.write.reset();
  EXPECT_EQ(read_all(pipe.read.get()), "out\n/dev/null\nno stderr\n");
  int status = 0;
  EXPECT_EQ(waitpid(helper, &status, 0), helper);
  EXPECT_EQ(status, 0);
}

// A shell that prints what its descriptor `fd` holds.
std::string content_of(int fd) { return fmt::format("cat /proc/$$/fd/{};", fd); }
constexpr const char* kListDescriptors = "ls -v /proc/$$/fd";

TEST(Spawn, PassesDescriptorsUnderChosenNumbers) {
  auto first = memory_file("first\n");
  auto second = memory_file("second\n");
  Fd open_for_all(open("/dev/zero", O_RDONLY));  // not close-on-exec, and between the two places
  ASSERT_TRUE(first.ok() && second.ok() && open_for_all);
  const int far = second->get() + 40;
  SpawnSpec spec = shell(content_of(3) + content_of(far) + kListDescriptors);
  spec.passed = {{first->get(), 3}, {second->get(), far}};
  EXPECT_EQ(output_of(spec), fmt::format("first\nsecond\n0\n1\n2\n3\n{}\n", far));
}

// The places are the sources' own numbers in every order: some stay, some are exchanged, some go round.
TEST(Spawn, PassedDescriptorsMayCollide) {
  Fd files[3];
  std::vector<int> numbers;
  for (Fd& file : files) {
    auto made = memory_file(fmt::format("{}\n", numbers.size()));
    ASSERT_TRUE(made.ok());
    file = *std::move(made);
    numbers.push_back(file.get());
  }
  std::vector<int> places = numbers;  // ascending, as next_permutation() wants them
  do {
    SpawnSpec spec = shell(content_of(places[0]) + content_of(places[1]) + content_of(places[2]) + kListDescriptors);
    for (size_t i = 0; i < 3; ++i) spec.passed.push_back({numbers[i], places[i]});
    EXPECT_EQ(output_of(spec), fmt::format("0\n1\n2\n0\n1\n2\n{}\n", fmt::join(numbers, "\n")))
        << fmt::format("{} to {}", fmt::join(numbers, ","), fmt::join(places, ","));
  } while (std::ranges::next_permutation(places).found);
}

TEST(Spawn, OneDescriptorUnderSeveralNumbers) {
  auto file = memory_file("text\n");
  ASSERT_TRUE(file.ok());
  const int fd = file->get();
  SpawnSpec spec = shell(content_of(fd) + content_of(fd + 1) + "cat");
  spec.passed = {{fd, fd + 1}, {fd, fd}};
  spec.stdin_fd = fd;
  EXPECT_EQ(output_of(spec), "text\ntext\ntext\n");
}

TEST(Spawn, ADescriptorThatIsNotOpenIsAnError) {
  Fd closed(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = closed.get();
  closed.reset();
  SpawnSpec spec = shell(":");
  for (int place : {number, number + 1, number - 1}) {
    spec.passed = {{number, place}};
    spec.stdin_fd = STDIN_FILENO;  // else /dev/null would take the number
    auto failed = spawn(spec);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, "cannot pass its descriptors to /bin/sh: Bad file descriptor");
  }
}

TEST(Spawn, SignalsStartAfresh) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction old {};
  sigaction(SIGUSR1, &ignore, &old);
  sigset_t blocked;
  sigset_t old_mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &old_mask);

  std::string text = output_of(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));

  sigset_t now;
  pthread_sigmask(SIG_SETMASK, &old_mask, &now);
  sigaction(SIGUSR1, &old, nullptr);
  EXPECT_EQ(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  EXPECT_TRUE(sigismember(&now, SIGTERM));  // our own mask is as it was
  EXPECT_FALSE(sigismember(&now, SIGHUP));
}

TEST(Spawn, SessionOfItsOwn) {
  test::Pipe pipe = make_pipe();
  SpawnSpec spec = shell("read line");
  spec.stdin_fd = pipe.read.get();
  auto own = spawn(spec);
  spec.new_session = false;
  auto shared = spawn(spec);
  ASSERT_TRUE(own.ok() && shared.ok());
  EXPECT_EQ(getsid(own->pid), own->pid);
  EXPECT_EQ(getpgid(own->pid), own->pid);
  EXPECT_EQ(getsid(shared->pid), getsid(0));
  pipe.write.reset();
  EXPECT_TRUE(await_exit(*own) && await_exit(*shared));
}

TEST(Spawn, Affinity) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mine)) ++cpu;
  SpawnSpec spec = shell("grep Cpus_allowed_list /proc/self/status");
  spec.cpus = {cpu};
  EXPECT_EQ(output_of(spec), fmt::format("Cpus_allowed_list:\t{}\n", cpu));
  spec.cpus = {100'000};
  auto failed = spawn(spec);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr("cannot bind /bin/sh to its CPUs"));
}

TEST(Spawn, DiesWithItsParent) {
  test::Pipe pids = make_pipe();
  test::Pipe life = make_pipe();  // its write end is held by the grandchild alone: end of file is its death
  pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    SpawnSpec spec = shell("trap '' TERM HUP; echo $$ >&2; exec sleep 1000");
    spec.stdout_fd = life.write.get();
    spec.stderr_fd = pids.write.get();
    if (!spawn(spec).ok()) _exit(1);
    pids.write.reset();
    life.write.reset();
    pause();
    _exit(0);
  }
  pids.write.reset();
  life.write.reset();
  auto grandchild = static_cast<pid_t>(parse_int(test::read_line(pids.read.get())).value_or(0));
  EXPECT_GT(grandchild, 0);
  kill(parent, SIGKILL);
  EXPECT_EQ(read_all(life.read.get()), "");
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  waitpid(grandchild, nullptr, 0);  // ours only if another test has made this process a subreaper
}

TEST(Spawn, ExecFailuresAreErrors) {
  ASSERT_TRUE(kill_descendants(Deadline::in(20s)).empty());  // what other tests left to a subreaper
  test::TempDir dir;
  struct Case {
    std::string program;
    ErrorKind kind;
    std::string text;
  };
  const Case cases[] = {
      {dir / "absent", ErrorKind::kNotFound, "No such file or directory"},
      {dir.write("file", "") + "/below", ErrorKind::kNotFound, "Not a directory"},
      {dir.write("plain.py", "print(1)"), ErrorKind::kNotExecutable, "; chmod +x "},
      {dir.path(), ErrorKind::kNotExecutable, "Permission denied"},
      {dir.write("noshebang", "echo", true), ErrorKind::kNotExecutable, "starts with #!"},
      {dir.write("lost", "#!/opt/gone/python3 -u\n", true), ErrorKind::kNotExecutable,
       "its interpreter /opt/gone/python3 does not exist"},
      {dir.write("dos", "#!/bin/sh\r\necho\r\n", true), ErrorKind::kNotExecutable, "its lines end as on Windows"},
  };
  for (const Case& each : cases) {
    auto failed = spawn({.program = each.program, .argv = {each.program}});
    ASSERT_FALSE(failed.ok()) << each.program;
    EXPECT_EQ(failed.error().kind, each.kind) << failed.error().text();
    EXPECT_THAT(failed.error().text(), HasSubstr(each.text));
    EXPECT_THAT(failed.error().text(), HasSubstr(each.program));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // and no zombie is left
}

TEST(Spawn, TooManyArguments) {
  SpawnSpec spec = shell("true");
  spec.argv.push_back(std::string(4 << 20, 'x'));
  auto failed = spawn(spec);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::kSystem);
  EXPECT_THAT(failed.error().text(), HasSubstr("Argument list too long"));
}

TEST(Spawn, LeaksNoDescriptor) {
  auto count = [] {
    auto entries = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  auto before = count();
  for (int i = 0; i < 20; ++i) {
    auto child = spawn(shell(":"));
    ASSERT_TRUE(child.ok());
    ASSERT_TRUE(await_exit(*child));
    EXPECT_FALSE(spawn({.program = "/nonexistent"}).ok());
  }
  EXPECT_EQ(count(), before);
}

TEST(SignalGroup, ReachesEverybodyInIt) {
  test::Pipe pipe = make_pipe();
  SpawnSpec spec = shell("sleep 1000 & echo ready; wait");
  spec.stdout_fd = pipe.write.get();
  auto child = spawn(spec);
  ASSERT_TRUE(child.ok());
  pipe.write.reset();
  EXPECT_EQ(test::read_line(pipe.read.get()), "ready");
  EXPECT_TRUE(signal_group(child->pid, SIGKILL));
  EXPECT_EQ(read_all(pipe.read.get()), "");  // the sleeper held it too
  EXPECT_TRUE(await_exit(*child));
}

TEST(SignalGroup, FalseWhenNobodyIsLeft) {
  auto child = spawn(shell(":"));
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(await_exit(*child));
  EXPECT_FALSE(signal_group(child->pid, SIGTERM));
}

}  // namespace
}  // namespace muster::process
