#include "muster/output/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "muster/output/console_sink.h"
#include "muster/output/test/output_harness.h"
#include "muster/process/pty.h"

namespace muster::output {
namespace {

using testing::make_pipe;
using testing::Pipe;
using testing::read_available;
using testing::run_until;
using testing::TemporaryDirectory;

constexpr auto kSoon = std::chrono::seconds(10);

void put(Console& console, job::Stream stream, const void* writer, std::string_view text) {
  console.begin(stream, writer) += text;
  console.commit(stream);
}

TEST(Console, KeepsStreamsApart) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  put(console, job::Stream::kStdout, &loop, "to stdout\n");
  console.log().warn("to {}", "stderr");
  console.flush(Deadline::in(kSoon));
  EXPECT_TRUE(console.idle());
  EXPECT_EQ(read_available(out.read.get()), "to stdout\n");
  EXPECT_EQ(read_available(err.read.get()), "muster: warning: to stderr\n");
}

TEST(Console, TheSameFileTwiceIsOneOrderedStream) {
  net::EventLoop loop;
  Pipe both = make_pipe();
  Fd again(::dup(both.write.get()));
  Console console(loop, {.stdout_fd = both.write.get(), .stderr_fd = again.get()});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    std::string line = std::to_string(i) + "\n";
    put(console, i % 3 == 0 ? job::Stream::kStderr : job::Stream::kStdout, &loop, line);
    expected += line;
  }
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(both.read.get()), expected);
}

TEST(Console, DoesNotTouchTheFlagsOfASharedDescriptor) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  put(console, job::Stream::kStdout, &loop, "x\n");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(::fcntl(out.write.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Console, AStoppedReaderBlocksNobodyAndLosesNothing) {
  net::EventLoop loop;
  TemporaryDirectory directory;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.set_spool(directory.path(), 1 << 30);
  bool room_again = false;
  console.on_room([&] { room_again = true; });

  std::string line(99, 'x');
  line += '\n';
  size_t written = 0;
  while (console.has_room(job::Stream::kStdout)) {
    put(console, job::Stream::kStdout, &loop, line);
    written += line.size();
    ASSERT_LT(written, 16u << 20);
  }
  ASSERT_TRUE(run_until(loop, [&] { return room_again; }));  // patience is over: what follows is spooled
  for (int i = 0; i < 50000; ++i, written += line.size()) put(console, job::Stream::kStdout, &loop, line);
  loop.run_until(Deadline::in(std::chrono::milliseconds(1)));
  EXPECT_FALSE(console.idle());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));

  std::string got;
  ASSERT_TRUE(run_until(loop, [&] {
    got += read_available(out.read.get());
    return console.idle() && got.size() >= written;
  }));
  EXPECT_EQ(got.size(), written);
  for (size_t at = 0; at < got.size(); at += line.size()) ASSERT_EQ(got.compare(at, line.size(), line), 0);
  EXPECT_EQ(console.dropped_lines(), 0u);
}

TEST(Console, AFullSpoolDropsWholeLinesAndSaysSoInTheirPlace) {
  net::EventLoop loop;
  TemporaryDirectory directory;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.set_spool(directory.path(), 1 << 20);
  std::string line(99, 'x');
  line += '\n';
  uint64_t lines = 0;
  for (; lines < 100000; ++lines) {
    put(console, job::Stream::kStdout, &loop, line);
    if (!console.has_room(job::Stream::kStdout)) {
      ASSERT_TRUE(run_until(loop, [&] { return console.has_room(job::Stream::kStdout); }));
    }
  }
  console.write(job::Stream::kStdout, "ours\n");
  std::string got;
  ASSERT_TRUE(run_until(loop, [&] {
    got += read_available(out.read.get());
    return console.idle() && got.ends_with("ours\n");
  }));
  uint64_t shown = 0;
  for (size_t at = 0; got.compare(at, line.size(), line) == 0; at += line.size()) ++shown;
  EXPECT_GT(console.dropped_lines(), 0u);
  EXPECT_EQ(shown + console.dropped_lines(), lines);
  EXPECT_EQ(got.substr(shown * line.size()), "muster: warning: " + std::to_string(console.dropped_lines()) +
                                                 " lines dropped here: too slow a reader, and the spool in " +
                                                 directory.path() +
                                                 " is full (cap 1 MiB; raise it with --output-cap)\nours\n");
}

// Fills the console until what follows is spooled, then writes `last` and reads everything.
std::string show_late(net::EventLoop& loop, Console& console, int reader, const std::string& last) {
  bool room_again = false;
  console.on_room([&] { room_again = true; });
  while (console.has_room(job::Stream::kStdout))
    put(console, job::Stream::kStdout, &loop, std::string(100000, 'x') + "\n");
  EXPECT_TRUE(run_until(loop, [&] { return room_again; }));
  put(console, job::Stream::kStdout, &loop, last);
  console.on_room(nullptr);
  std::string got;
  EXPECT_TRUE(run_until(loop, [&] {
    got += read_available(reader);
    return console.idle();
  }));
  return got + read_available(reader);
}

TEST(Console, ASpoolWhoseDirectoryIsGoneLiesInTheTemporaryDirectory) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.set_spool(TemporaryDirectory().path(), 1 << 30);
  EXPECT_THAT(show_late(loop, console, out.read.get(), "spooled\n"), ::testing::EndsWith("x\nspooled\n"));
  EXPECT_EQ(console.dropped_lines(), 0u);
}

TEST(Console, LinesOfSpoolsThatCannotBeMadeAreCounted) {
  net::EventLoop loop;
  const auto old = environment_variable("TMPDIR");
  ::setenv("TMPDIR", "/proc", 1);  // files cannot be made there
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  for (uint64_t turn = 1; turn <= 2; ++turn) {
    EXPECT_THAT(show_late(loop, console, out.read.get(), "a\nb\n"),
                ::testing::HasSubstr("muster: warning: 2 lines dropped here: "));
    EXPECT_EQ(console.dropped_lines(), 2 * turn);
  }
  old ? ::setenv("TMPDIR", old->c_str(), 1) : ::unsetenv("TMPDIR");
}

TEST(Console, ASpoolThatCannotBeReadIsSaid) {
  net::EventLoop loop;
  TemporaryDirectory directory;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.set_spool(directory.path(), 1 << 30);
  bool room_again = false;
  console.on_room([&] { room_again = true; });
  while (console.has_room(job::Stream::kStdout))
    put(console, job::Stream::kStdout, &loop, std::string(100000, 'x') + "\n");
  ASSERT_TRUE(run_until(loop, [&] { return room_again; }));  // patience is over: what follows is spooled
  put(console, job::Stream::kStdout, &loop, std::string(299999, 'y') + "\n");
  bool truncated = false;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const bool is_spool = std::filesystem::read_symlink(entry.path(), gone).string().starts_with(directory.path());
    if (is_spool) truncated = ::truncate(entry.path().c_str(), 0) == 0;
  }
  ASSERT_TRUE(truncated);
  std::string got;
  EXPECT_TRUE(run_until(loop, [&] {
    got += read_available(out.read.get());
    return console.idle();
  }));
  got += read_available(out.read.get());
  EXPECT_EQ(got.find("yy"), std::string::npos);
  EXPECT_THAT(got, ::testing::EndsWith("x\nmuster: warning: 300000 bytes lost here: the spool in " + directory.path() +
                                       " cannot be read (it has been truncated)\n"));
}

TEST(Console, AReaderThatHasGoneEndsTheOutputNotTheJob) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  out.read.reset();
  put(console, job::Stream::kStdout, &loop, "nobody listens\n");
  console.flush(Deadline::in(kSoon));
  EXPECT_TRUE(console.broken(job::Stream::kStdout));
  EXPECT_FALSE(console.broken(job::Stream::kStderr));
  EXPECT_TRUE(console.idle());
  EXPECT_TRUE(console.has_room(job::Stream::kStdout));
  put(console, job::Stream::kStdout, &loop, "still nobody\n");
  console.log().info("stderr works");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(err.read.get()), "muster: stderr works\n");
}

TEST(Console, AReaderThatGoesWhileWeAreBehindEndsIt) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  std::string block(1 << 20, 'x');
  block.back() = '\n';
  for (int i = 0; i < 8; ++i) put(console, job::Stream::kStdout, &loop, block);
  EXPECT_FALSE(console.idle());
  out.read.reset();
  EXPECT_TRUE(run_until(loop, [&] { return console.idle(); }));
  EXPECT_TRUE(console.broken(job::Stream::kStdout));
}

TEST(Console, AClosedDescriptorIsABrokenStream) {
  net::EventLoop loop;
  Pipe err = make_pipe();
  Console console(loop, {.stdout_fd = 999, .stderr_fd = err.write.get()});
  put(console, job::Stream::kStdout, &loop, "x\n");
  console.flush(Deadline::in(kSoon));
  EXPECT_TRUE(console.broken(job::Stream::kStdout));
}

TEST(Console, ASocketIsNeverBlockedOn) {
  net::EventLoop loop;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd reader(ends[0]), writer(ends[1]);
  Pipe err = make_pipe();
  Console console(loop, {.stdout_fd = writer.get(), .stderr_fd = err.write.get()});
  std::string block(1 << 20, 'x');
  block.back() = '\n';
  for (int i = 0; i < 8; ++i) put(console, job::Stream::kStdout, &loop, block);
  size_t got = 0;
  ASSERT_TRUE(run_until(loop, [&] {
    got += read_available(reader.get()).size();
    return console.idle() && got >= 8 * block.size();
  }));
  EXPECT_EQ(got, 8 * block.size());
}

// Where our pipe cannot be opened anew (somebody else's, as after su) writes are small and only made when there is
// room.
TEST(Console, APipeThatCannotBeReopenedIsNeverBlockedOn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give it up";
  Pipe out = make_pipe(), err = make_pipe();
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  constexpr size_t kSize = 1 << 20;
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    net::EventLoop loop;
    Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
    std::string block(kSize, 'x');
    block.back() = '\n';
    put(console, job::Stream::kStdout, &loop, block);  // nobody reads yet: would block for ever
    console.write(job::Stream::kStderr, "not blocked\n");
    console.flush(Deadline::in(kSoon));
    ::_exit(console.idle() ? 0 : 1);
  }
  out.write.reset();
  err.write.reset();
  char said[12];
  ASSERT_EQ(::read(err.read.get(), said, sizeof said), 12);
  size_t got = 0;
  char buffer[4096];
  for (ssize_t n; (n = ::read(out.read.get(), buffer, sizeof buffer)) > 0;) got += static_cast<size_t>(n);
  EXPECT_EQ(got, kSize);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Console, AFullDiskUnderStdoutIsSaidOnStderr) {
  net::EventLoop loop;
  Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Pipe err = make_pipe();
  Console console(loop, {.stdout_fd = full.get(), .stderr_fd = err.write.get()});
  put(console, job::Stream::kStdout, &loop, "a\nb\n");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(console.dropped_lines(), 2u);
  EXPECT_EQ(read_available(err.read.get()),
            "muster: warning: lines of stdout are being lost: No space left on device\n");
  console.say_what_stdout_lost();
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(err.read.get()), "muster: warning: stdout has lost 2 lines\n");
}

TEST(Console, ALineSomebodyLeftUnfinishedIsEndedFirst) {
  net::EventLoop loop;
  Pipe out = make_pipe();
  Fd again(::dup(out.write.get()));
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = again.get()});
  int one = 0, two = 0;
  put(console, job::Stream::kStdout, &one, "prompt> ");
  EXPECT_TRUE(console.line_open_by(job::Stream::kStderr, &one));
  put(console, job::Stream::kStdout, &one, "goes on");
  put(console, job::Stream::kStdout, &two, "another\n");
  console.log().info("ours");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(out.read.get()), "prompt> goes on\nanother\nmuster: ours\n");
}

TEST(Console, EachLineOfATorchrunMessageHasItsPrefix) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.torchrun_style = true, .stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.log().warn("one\ntwo");
  console.flush(Deadline::in(kSoon));
  EXPECT_THAT(read_available(err.read.get()),
              ::testing::MatchesRegex("W[0-9]+ [0-9:]+[.][0-9]+ [0-9]+ muster[]] one\n"
                                      "W[0-9]+ [0-9:]+[.][0-9]+ [0-9]+ muster[]] two\n"));
}

TEST(Console, TheLiveLineIsOnlyForTerminals) {
  net::EventLoop loop;
  Pipe out = make_pipe(), err = make_pipe();
  Console console(loop, {.stdout_fd = out.write.get(), .stderr_fd = err.write.get()});
  console.set_live_line("50%");
  put(console, job::Stream::kStdout, &loop, "x\n");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(out.read.get()), "x\n");
  EXPECT_EQ(read_available(err.read.get()), "");
}

TEST(Console, OnATerminalTheLiveLineStaysBelowTheText) {
  net::EventLoop loop;
  auto pty = process::open_pty(-1);
  ASSERT_TRUE(pty);
  Fd again(::dup(pty->slave.get()));
  Console console(loop, {.stdout_fd = pty->slave.get(), .stderr_fd = again.get()});
  ASSERT_TRUE(console.is_terminal(job::Stream::kStdout));
  console.set_live_line("50%");
  console.flush(Deadline::in(kSoon));
  put(console, job::Stream::kStdout, &loop, "text\n");
  console.flush(Deadline::in(kSoon));
  console.set_live_line("");
  console.flush(Deadline::in(kSoon));
  EXPECT_EQ(read_available(pty->master.get()), "50%\x1b[0m\r\x1b[Ktext\n50%\x1b[0m\r\x1b[K");
}

TEST(FitColumns, CountsWhatIsSeen) {
  EXPECT_EQ(fit_columns("abcdef", 3), "abc");
  EXPECT_EQ(fit_columns("\x1b[31mab\x1b[0mcd", 3), "\x1b[31mab\x1b[0mc");
  EXPECT_EQ(fit_columns("\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88", 2), "\xe2\x96\x88\xe2\x96\x88");
  EXPECT_EQ(fit_columns("ab\x1b[", 9), "ab\x1b[");
}

TEST(FitColumns, TheTextGivesWayToTheTail) {
  EXPECT_EQ(fit_columns("abcdef", " · 7 s", 12), "abcdef · 7 s");
  EXPECT_EQ(fit_columns("abcdef", " · 7 s", 11), "abcd… · 7 s");
  EXPECT_EQ(fit_columns("abcdef", " · 7 s", 7), "… · 7 s");
  EXPECT_EQ(fit_columns("abcdef", " · 7 s", 6), " · 7 s");
  EXPECT_EQ(fit_columns("abcdef", " · 7 s", 3), " · ");
  EXPECT_EQ(fit_columns("abcdef", "", 3), "abc");
}

}  // namespace
}  // namespace muster::output
