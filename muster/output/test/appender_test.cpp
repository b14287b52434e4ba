#include "muster/output/appender.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "muster/output/test/output_harness.h"

namespace muster::output {
namespace {

constexpr auto kSoon = std::chrono::seconds(10);

std::unique_ptr<Appender> start(int fd) {
  auto appender = Appender::start(fd);
  EXPECT_TRUE(appender);
  return *std::move(appender);
}

TEST(Appender, WritesAllInOrder) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  auto appender = start(file.get());
  EXPECT_TRUE(appender->idle());
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    std::string line = std::to_string(i) + "\n";
    all += line;
    appender->append(line);
    EXPECT_EQ(line, "");
  }
  EXPECT_TRUE(appender->wait(Deadline::in(kSoon)));
  EXPECT_TRUE(appender->idle());
  EXPECT_EQ(*read_file(path), all);
  EXPECT_EQ(appender->path(), path);
}

// A pipe that is not read stands for a file system that does not respond.
TEST(Appender, AFileThatDoesNotRespondStopsNothing) {
  testing::Pipe pipe = testing::make_pipe();
  auto appender = start(pipe.write.get());
  std::string block(1 << 20, 'x');
  appender->append(block);
  block = "more";
  appender->append(block);
  EXPECT_FALSE(appender->wait(Deadline::in(std::chrono::milliseconds(20))));
  EXPECT_FALSE(appender->idle());
  net::EventLoop loop;
  EXPECT_TRUE(testing::run_until(loop, [&] { return appender->stuck(std::chrono::milliseconds(10)); }));
  EXPECT_GT(appender->waiting(), 4u);
  size_t got = 0;
  EXPECT_TRUE(testing::run_until(loop, [&] {
    got += testing::read_available(pipe.read.get()).size();
    return appender->idle() && got == (1 << 20) + 4;
  }));
}

TEST(Appender, CountsWhatAFullDiskLoses) {
  Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  auto appender = start(full.get());
  std::string lines = "a\nb\n";
  appender->append(lines);
  EXPECT_TRUE(appender->wait(Deadline::in(kSoon)));
  EXPECT_FALSE(appender->idle()) << "a failure waits to be taken";
  auto failure = appender->take_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error, ENOSPC);
  EXPECT_EQ(failure->lost_lines, 2u);
  EXPECT_TRUE(appender->idle());
}

}  // namespace
}  // namespace muster::output
