#include "muster/output/file_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/output/test/output_harness.h"

namespace muster::output {
namespace {

// Files of a thread; a FIFO that is not read stands for a file system that does not respond.
class FileWriterTest : public ::testing::Test {
 protected:
  WrittenFile create(const std::string& path, uint64_t cap = 0) {
    auto file = writer_.create(path, cap, Deadline::in(std::chrono::seconds(10)));
    EXPECT_TRUE(file);
    return *std::move(file);
  }
  bool run_until(const std::function<bool()>& met) { return testing::run_until(loop_, met); }

  net::EventLoop loop_;
  testing::TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/log";
  FileWriter writer_{loop_};
};

TEST_F(FileWriterTest, WritesAllInOrder) {
  WrittenFile file = create(path_);
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = fmt::format("line {}\n", i);
    file.append(line, Clock::now());
    all += line;
  }
  bool closed = false;
  file.close([&](uint64_t dropped, const std::string&) {
    EXPECT_EQ(dropped, 0u);
    closed = true;
  });
  EXPECT_TRUE(run_until([&] { return closed && writer_.idle(); }));
  EXPECT_EQ(*read_file(path_), all);
}

TEST_F(FileWriterTest, AtTheCapLinesAreDroppedAndCounted) {
  WrittenFile file = create(path_, 6);
  file.append("one\ntwo\nthree\n", Clock::now());
  EXPECT_TRUE(run_until([&] { return writer_.idle(); }));
  EXPECT_TRUE(file.dropping());
  uint64_t dropped = 0;
  std::string reason;
  file.close([&](uint64_t lines, const std::string& why) {
    dropped = lines;
    reason = why;
  });
  EXPECT_TRUE(run_until([&] { return writer_.idle(); }));
  EXPECT_EQ(dropped, 2u);
  EXPECT_EQ(reason, "is full (cap 6 bytes; raise it with --output-cap)");
  EXPECT_EQ(*read_file(path_), "one\n");
}

TEST_F(FileWriterTest, AFileThatDoesNotRespondStopsNothing) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  WrittenFile file = create(path_);
  int resumed = 0;
  writer_.on_room = [&] { ++resumed; };
  const std::string block((1 << 20) - 1, 'x');
  const std::string line = block + "\n";
  constexpr int kFit = WrittenFile::kMostWaiting >> 20;
  file.append(line, Clock::now());
  ASSERT_TRUE(run_until([&] { return !writer_.stuck_file(std::chrono::milliseconds(10)).empty(); }));
  for (int i = 0; i < kFit; ++i) file.append(line, Clock::now());
  EXPECT_FALSE(file.has_room(Clock::now())) << "it may be a slow disk: what can wait should";
  EXPECT_TRUE(run_until([&] { return resumed > 0; })) << "after a while nothing waits any more";
  EXPECT_TRUE(file.has_room(Clock::now()));
  file.append(line + "half", Clock::now());
  file.append(" of it\n", Clock::now());
  EXPECT_TRUE(file.dropping());
  EXPECT_EQ(file.reason(), "is on a file system that does not respond");
  EXPECT_EQ(file.dropped_lines(), 2u);
  EXPECT_EQ(writer_.stuck_file(std::chrono::milliseconds(10)), path_);

  Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  size_t got = 0;
  file.close({});
  EXPECT_TRUE(run_until([&] {
    got += testing::read_available(reader.get()).size();
    return writer_.idle();
  }));
  EXPECT_EQ(got + testing::read_available(reader.get()).size(), line.size() * (kFit + 1));
}

TEST_F(FileWriterTest, ABusyFileOnASlowDiskDelaysNoOther) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const std::string other_path = directory_.path() + "/other";
  WrittenFile busy = create(path_), other = create(other_path);
  Fd disk(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string line = std::string((1 << 20) - 1, 'x') + "\n";
  std::string piece(64 << 10, '\0');
  // A disk that needs longer than the patience for what the busy file has at once.
  auto write_on = [&](const std::function<bool()>& met) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (!met() && !deadline.passed()) {
      if (busy.has_room(Clock::now())) busy.append(line, Clock::now());
      EXPECT_GT(::read(disk.get(), piece.data(), piece.size()), 0);
      loop_.run_until(Deadline::in(std::chrono::milliseconds(40)));
    }
    return met();
  };
  const TimePoint began = Clock::now();
  busy.append(line + line + line + line, began);
  other.append("first\n", began);
  ASSERT_TRUE(write_on([&] { return Clock::now() - began > WrittenFile::kPatience + std::chrono::milliseconds(500); }));
  for (size_t i = 0; i < WrittenFile::kMostWaiting + line.size(); i += line.size()) other.append(line, Clock::now());
  EXPECT_FALSE(other.dropping()) << other.reason();
  bool closed = false;
  other.close([&](uint64_t dropped, const std::string& reason) {
    EXPECT_EQ(dropped, 0u) << reason;
    closed = true;
  });
  EXPECT_TRUE(write_on([&] { return closed; })) << "the other file gets its turn";
  EXPECT_EQ(read_file(other_path)->size(), 6 + WrittenFile::kMostWaiting + line.size());
  EXPECT_EQ(busy.dropped_lines(), 0u);
  busy.close({});
  EXPECT_TRUE(run_until([&] {
    testing::read_available(disk.get());
    return writer_.idle();
  }));
}

}  // namespace
}  // namespace muster::output
