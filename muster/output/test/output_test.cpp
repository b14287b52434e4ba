#include "muster/output/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <csignal>
#include <random>
#include <thread>

#include "muster/output/test/output_harness.h"
#include "muster/process/pty.h"

namespace muster::output {
namespace {

using testing::make_pipe;
using testing::Pipe;
using testing::read_available;
using testing::run_until;
using testing::TemporaryDirectory;

void write_text(int fd, std::string_view text) {
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

// A job whose workers are this test: it writes to the ends meant for them.
class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    job_.workers = 2;
    job_.output.label = job::LabelKind::kRank;
    job_.output.log_dir = directory_.path();
    job_.output.tee = {{0, 3}, {1, 3}};
  }

  // With stdout and stderr of the console on pipes, or both on the given descriptor.
  void start(int console_fd = -1) {
    int out = console_fd >= 0 ? console_fd : out_.write.get();
    int err = console_fd >= 0 ? console_fd : err_.write.get();
    console_ = std::make_unique<Console>(loop_, Console::Options{.stdout_fd = out, .stderr_fd = err});
    layout_ = std::make_unique<LogLayout>(*LogLayout::create(job_));
    ASSERT_TRUE(layout_->make_attempt(0, job_.workers));
    output_ = std::make_unique<Output>(loop_, *console_, job_, *layout_);
    if (before_open_) before_open_();
    for (int i = 0; i < job_.workers; ++i) {
      job::Placement placement;
      placement.rank = placement.local_rank = i;
      placement.world_size = placement.local_world_size = job_.workers;
      auto stdio = output_->open({}, placement);
      ASSERT_TRUE(stdio) << stdio.error().text();
      stdio_.push_back(*stdio);
      // As a child has them: its own copies.
      for (int* fd : {&stdio_.back().stdout_fd, &stdio_.back().stderr_fd}) {
        if (*fd < 0) continue;
        ends_.emplace_back(::dup(*fd));
        *fd = ends_.back().get();
      }
      output_->child_started(i);
    }
  }
  int out(int rank) { return stdio_[static_cast<size_t>(rank)].stdout_fd; }
  int err(int rank) { return stdio_[static_cast<size_t>(rank)].stderr_fd; }

  // Everything ends; what the console shows.
  void finish() {
    ends_.clear();
    for (int i = 0; i < job_.workers; ++i) output_->drain(i);
    settle();
    console_->flush(Deadline::in(std::chrono::seconds(10)));
    shown_out_ += read_available(out_.read.get());
    shown_err_ += read_available(err_.read.get());
  }
  // Until everything that was drained is in its file.
  void settle() {
    output_->close_filtered();
    EXPECT_TRUE(testing::run_until(loop_, [&] { return output_->files_idle(); }));
  }
  std::string log_text(int rank, job::Stream stream) { return *read_file(output_->log_file(rank, stream)); }
  void no_files() {
    job_.output.log_dir.clear();
    job_.output.tee.clear();
  }

  TemporaryDirectory directory_;
  net::EventLoop loop_;
  Pipe out_ = make_pipe(), err_ = make_pipe();
  job::JobSpec job_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<LogLayout> layout_;
  std::unique_ptr<Output> output_;
  std::vector<WorkerStdio> stdio_;
  std::vector<Fd> ends_;
  std::string shown_out_, shown_err_;
  std::function<void()> before_open_;
};

TEST_F(OutputTest, LabelsLinesAndKeepsStreamsApart) {
  no_files();
  start();
  write_text(out(0), "zero\n");
  write_text(err(1), "one\nunfinished");
  finish();
  EXPECT_EQ(shown_out_, "[0] zero\n");
  EXPECT_EQ(shown_err_, "[1] one\n[1] unfinished\n");
  EXPECT_EQ(output_->log_file(0, job::Stream::kStdout), "");
  layout_->remove_if_temporary(false);
}

// A lease on the file keeps open() waiting, as a file system that does not respond does.
TEST_F(OutputTest, ALogFileThatCannotBeOpenedInTimeIsLeftOut) {
  ::signal(SIGIO, SIG_IGN);
  job_.output.tee = {{0, 3}};
  job_.output.redirects = {{1, 3}};
  Fd held;
  before_open_ = [&] {
    output_->set_patience(std::chrono::seconds(1));
    held.reset(::open(layout_->stream_file(0, 0, job::Stream::kStderr).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::fcntl(held.get(), F_SETLEASE, F_WRLCK), 0);
  };
  start();
  write_text(out(0), "in time\n");
  write_text(err(0), "too late\n");
  write_text(out(1), "not tried\n");
  finish();
  EXPECT_EQ(log_text(0, job::Stream::kStdout), "in time\n");
  EXPECT_EQ(output_->log_file(0, job::Stream::kStderr), "");
  EXPECT_EQ(output_->log_file(1, job::Stream::kStdout), "");
  EXPECT_EQ(shown_out_, "[0] in time\n[1] not tried\n") << "what has no file is shown";
  EXPECT_THAT(shown_err_, ::testing::HasSubstr("[0] too late\n"));
  EXPECT_THAT(shown_err_, ::testing::HasSubstr("no more log files in this round: cannot create"));
}

TEST_F(OutputTest, OffATerminalProgressOfOneRankIsALineWhenNoOtherHasComeForSoLong) {
  no_files();
  job_.output.progress_period = Duration(0);
  start();
  write_text(out(1), "\r10% of rank 1");
  for (std::string state : {"10%", "20%"}) {
    write_text(out(0), "\r" + state);
    auto shown = [&] { return (shown_out_ += read_available(out_.read.get())).ends_with(state + "\n"); };
    ASSERT_TRUE(run_until(loop_, shown)) << shown_out_;
  }
  write_text(out(0), "\r30%\nnext");
  finish();
  EXPECT_EQ(shown_out_, "[0] 10%\n[0] 20%\n[0] 30%\n[0] next\n[1] 10% of rank 1\n");
  layout_->remove_if_temporary(false);
}

TEST_F(OutputTest, LogFilesKeepTheRawBytes) {
  start();
  write_text(out(0), "10%\r20%\r\n\xff");
  finish();
  EXPECT_EQ(shown_out_, "[0] 20%\n[0] \xff\n");
  EXPECT_EQ(log_text(0, job::Stream::kStdout), "10%\r20%\r\n\xff");
  EXPECT_EQ(log_text(1, job::Stream::kStdout), "");
  EXPECT_EQ(output_->log_file(0, job::Stream::kStdout), layout_->stream_file(0, 0, job::Stream::kStdout));
}

TEST_F(OutputTest, OneWorkerIsPassedThroughAtOnce) {
  no_files();
  job_.workers = 1;
  job_.output.label = job::LabelKind::kNone;
  start();
  write_text(out(0), "prompt> ");
  ASSERT_TRUE(run_until(loop_, [&] { return !(shown_out_ += read_available(out_.read.get())).empty(); }));
  EXPECT_EQ(shown_out_, "prompt> ");
  write_text(out(0), "\r10%");
  finish();
  EXPECT_EQ(shown_out_, "prompt> \r10%");
  layout_->remove_if_temporary(false);
}

TEST_F(OutputTest, RedirectedStreamsReachTheFileAlone) {
  job_.output.tee.clear();
  job_.output.redirects = {{0, 1}};
  start();
  write_text(out(0), "filed\n");
  write_text(out(1), "shown\n");
  finish();
  EXPECT_EQ(shown_out_, "[1] shown\n");
  EXPECT_EQ(log_text(0, job::Stream::kStdout), "filed\n");
}

TEST_F(OutputTest, TorchrunTee) {
  job_.flavor = job::Flavor::kTorchrun;
  job_.output.inherit_plain_streams = true;
  job_.output.label = job::LabelKind::kNone;
  job_.output.tee = {{0, 1}, {1, 1}};
  job_.output.stdout_filters = {"loss", "acc"};
  start();
  EXPECT_EQ(err(0), -1);
  write_text(out(0), "loss 1\rbad \xff\nother\n");
  write_text(out(1), "acc 2");
  finish();
  EXPECT_THAT(shown_out_, "[default0]:loss 1\n[default0]:bad \xef\xbf\xbd\n[default0]:other\n[default1]:acc 2");
  EXPECT_EQ(*read_file(layout_->filtered_file(0, job::Stream::kStdout)), "[default0]:loss 1\n[default1]:acc 2");
  EXPECT_FALSE(std::filesystem::exists(layout_->filtered_file(0, job::Stream::kStderr)));
}

TEST_F(OutputTest, ALineLeftUnfinishedByOneRoundIsNotContinuedByTheNext) {
  job_.flavor = job::Flavor::kTorchrun;
  job_.output.label = job::LabelKind::kNone;
  job_.workers = 1;
  start();
  write_text(out(0), "part");
  ends_.clear();
  output_->drain(0);
  ASSERT_TRUE(layout_->make_attempt(1, 1));
  job::Round round;
  round.number = 1;
  auto stdio = output_->open(round, {});
  ASSERT_TRUE(stdio);
  write_text(stdio->stdout_fd, "next\n");
  output_->child_started(0);
  finish();
  EXPECT_EQ(shown_out_, "[default0]:part\n[default0]:next\n");
  EXPECT_EQ(*read_file(layout_->stream_file(0, 0, job::Stream::kStdout)), "part");
}

TEST_F(OutputTest, RanksFilteredOutAreFiledOnly) {
  job_.output.console_ranks = std::set<int>{1};
  start();
  write_text(out(0), "a\n");
  write_text(err(0), "Segmentation fault\n");
  write_text(out(1), "b\n");
  finish();
  EXPECT_EQ(shown_out_, "[1] b\n");
  EXPECT_EQ(shown_err_, "");
  EXPECT_EQ(log_text(0, job::Stream::kStdout), "a\n");
  EXPECT_EQ(output_->digest(0).exception_line, "Segmentation fault");
  EXPECT_FALSE(output_->digest(1).first_error_time);
}

TEST_F(OutputTest, WithoutALogDirectoryTheRestIsAsBefore) {
  job_.output.log_dir = "/dev/null";
  start();
  write_text(out(0), "a\n");
  finish();
  EXPECT_EQ(shown_out_, "[0] a\n");
  EXPECT_EQ(layout_->error_file(0, 0), "");
}

// A worker that writes much more than any buffer holds is not held up by a console that nobody reads.
TEST_F(OutputTest, AStoppedReaderStopsNoWorker) {
  no_files();
  start();
  std::string line(99, 'x');
  line += '\n';
  constexpr int kLines = 200'000;
  std::thread worker([&] {
    for (int i = 0; i < kLines / 100; ++i) {
      std::string block;
      for (int j = 0; j < 100; ++j) block += line;
      EXPECT_TRUE(write_all(out(0), block.data(), block.size()));
    }
    ends_.clear();
  });
  std::atomic<bool> done = false;
  std::thread waiter([&] {
    worker.join();
    done = true;
  });
  EXPECT_TRUE(run_until(loop_, [&] { return done.load(); }));
  waiter.join();
  EXPECT_FALSE(console_->idle());
  size_t got = 0;
  bool told = false;
  console_->on_idle([&] { told = true; });
  EXPECT_TRUE(run_until(loop_, [&] {
    got += read_available(out_.read.get()).size();
    return console_->idle() && told;
  }));
  got += read_available(out_.read.get()).size();
  EXPECT_EQ(got, kLines * (line.size() + 4));
  EXPECT_EQ(output_->dropped_lines(), 0u);
  layout_->remove_if_temporary(false);
}

TEST_F(OutputTest, AFullLogDropsWholeLinesCountsAndSays) {
  job_.output.cap = 64;
  start();
  for (int i = 0; i < 10; ++i) write_text(out(1), "0123456789\n");
  ASSERT_TRUE(run_until(loop_, [&] { return !(shown_err_ += read_available(err_.read.get())).empty(); }));
  finish();
  std::string path = output_->log_file(1, job::Stream::kStdout);
  EXPECT_EQ(*read_file(path), "0123456789\n0123456789\n0123456789\n0123456789\n0123456789\n");
  EXPECT_EQ(output_->dropped_lines(), 5u);
  std::string why = path + " is full (cap 64 bytes; raise it with --output-cap)\n";
  EXPECT_EQ(shown_err_, "muster: warning: rank 1 stdout: lines are being dropped: " + why +
                            "muster: warning: rank 1 stdout: 5 lines dropped: " + why);
  // The console kept up, so it has them all.
  EXPECT_EQ(std::count(shown_out_.begin(), shown_out_.end(), '\n'), 10);
}

TEST_F(OutputTest, OneDroppedLineIsOne) {
  job_.output.cap = 64;
  start();
  for (int i = 0; i < 6; ++i) write_text(out(1), "0123456789\n");
  finish();
  EXPECT_THAT(shown_err_, ::testing::HasSubstr("rank 1 stdout: 1 line dropped: "));
}

TEST_F(OutputTest, AFullDiskUnderTheLogsStopsNobody) {
  if (!directory_.mount_small("size=256k")) GTEST_SKIP() << "needs root to mount a small tmpfs";
  start();
  std::string block;
  for (int i = 0; i < 600; ++i) block += std::string(99, 'x') + "\n";
  size_t got = 0;
  for (int i = 0; i < 20; ++i) {
    write_text(out(0), block);
    size_t expected = got + 600 * 104;
    ASSERT_TRUE(run_until(loop_, [&] { return (got += read_available(out_.read.get()).size()) >= expected; }));
  }
  finish();
  EXPECT_THAT(shown_err_, ::testing::HasSubstr("lines dropped: " + output_->log_file(0, job::Stream::kStdout) +
                                               " is full (No space left on device)"));
  EXPECT_EQ(log_text(0, job::Stream::kStdout).size() % 100, 0u);
  EXPECT_EQ(log_text(0, job::Stream::kStdout).size() / 100 + output_->dropped_lines(), 12000u);
}

TEST_F(OutputTest, ARankWithStdinShowsItsPromptAfterAPause) {
  no_files();
  job_.stdin_spec = {job::StdinSpec::Kind::kRank, 1};
  start();
  EXPECT_EQ(stdio_[1].stdin_fd, 0);
  EXPECT_EQ(stdio_[0].stdin_fd, -1);
  EXPECT_TRUE(stdio_[0].stdin_null);
  write_text(out(0), "no prompt");
  write_text(out(1), "(Pdb) ");
  ASSERT_TRUE(run_until(loop_, [&] { return !(shown_out_ += read_available(out_.read.get())).empty(); }));
  EXPECT_EQ(shown_out_, "[1] (Pdb) ");
  write_text(out(1), "5\n");
  ASSERT_TRUE(run_until(loop_, [&] { return (shown_out_ += read_available(out_.read.get())).ends_with('\n'); }));
  finish();
  EXPECT_EQ(shown_out_, "[1] (Pdb) 5\n[0] no prompt\n");
  layout_->remove_if_temporary(false);
}

TEST_F(OutputTest, DrainDoesNotWaitForThoseWhoKeepTheStreamOpen) {
  no_files();
  start();
  write_text(out(0), "last words\n");
  output_->drain(0);  // the end is still open
  console_->flush(Deadline::in(std::chrono::seconds(10)));
  EXPECT_EQ(read_available(out_.read.get()), "[0] last words\n");
  EXPECT_EQ(::write(out(0), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  finish();
  layout_->remove_if_temporary(false);
}

// On a terminal of 40 columns.
class TerminalOutputTest : public OutputTest {
 protected:
  void start_on_terminal() {
    auto pty = process::open_pty(-1);
    ASSERT_TRUE(pty);
    pty_ = *std::move(pty);
    winsize size{10, 40, 0, 0};
    ASSERT_EQ(::ioctl(pty_.master.get(), TIOCSWINSZ, &size), 0);
    no_files();
    start(pty_.slave.get());
  }
  std::string wait_for(const std::string& end) {
    std::string seen;
    EXPECT_TRUE(run_until(loop_, [&] { return (seen += read_available(pty_.master.get())).ends_with(end); })) << seen;
    return seen;
  }
  void TearDown() override {
    finish();
    layout_->remove_if_temporary(false);
  }
  process::Pty pty_;
};

TEST_F(TerminalOutputTest, WorkersSeeTerminals) {
  start_on_terminal();
  EXPECT_EQ(::isatty(out(0)), 1);
  EXPECT_EQ(::isatty(err(1)), 1);
  write_text(out(0), "one\n");
  EXPECT_EQ(wait_for("one\n"), "[0] one\n");
}

TEST_F(TerminalOutputTest, ProgressShowsForOneRank) {
  start_on_terminal();
  write_text(out(1), "\r10% of rank 1");
  write_text(out(0), "\r10%");
  EXPECT_EQ(wait_for("10%\x1b[0m"), "[0] 10%\x1b[0m");
  write_text(out(1), "\r20% of rank 1\n");
  EXPECT_EQ(wait_for("10%\x1b[0m"), "\r\x1b[K[1] 20% of rank 1\n[0] 10%\x1b[0m");
  write_text(out(0), "\r" + std::string(60, '#'));
  EXPECT_EQ(wait_for("#\x1b[0m"), "\r\x1b[K[0] " + std::string(35, '#') + "\x1b[0m");
  write_text(out(0), "\n");
  EXPECT_EQ(wait_for("#\n"), "\r\x1b[K[0] " + std::string(60, '#') + "\n");
}

}  // namespace
}  // namespace muster::output
