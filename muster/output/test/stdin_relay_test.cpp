#include "muster/output/stdin_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/output/test/output_harness.h"

namespace muster::output {
namespace {

using testing::make_pipe;
using testing::Pipe;
using testing::read_available;
using testing::run_until;
using testing::TemporaryDirectory;

class StdinRelayTest : public ::testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }
  // The stream has been read to its end.
  static bool ended(int fd) {
    char byte;
    return ::read(fd, &byte, 1) == 0;
  }

  net::EventLoop loop_;
  std::string said_;
  Log log_{[this](LogLevel, std::string_view text) { said_ += text; }};
};

TEST_F(StdinRelayTest, EveryoneGetsEverythingAndTheEnd) {
  Pipe source = make_pipe();
  StdinRelay relay(loop_, log_, source.read.get());
  Fd one = *relay.add(0), two = *relay.add(1);
  ASSERT_EQ(::write(source.write.get(), "hello\n", 6), 6);
  std::string first, second;
  EXPECT_TRUE(run_until(loop_, [&] {
    first += read_available(one.get());
    second += read_available(two.get());
    return first == "hello\n" && second == "hello\n";
  }));
  source.write.reset();
  EXPECT_TRUE(run_until(loop_, [&] { return ended(one.get()) && ended(two.get()); }));
  EXPECT_EQ(::fcntl(source.read.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(StdinRelayTest, AFileIsCopiedToo) {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/input";
  std::string text(300'000, 'x');
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(write_all(file.get(), text.data(), text.size()));
  ASSERT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
  StdinRelay relay(loop_, log_, file.get());
  Fd one = *relay.add(0);
  std::string got;
  EXPECT_TRUE(run_until(loop_, [&] { return (got += read_available(one.get())).size() == text.size(); }));
  EXPECT_TRUE(run_until(loop_, [&] { return ended(one.get()); }));
}

TEST_F(StdinRelayTest, AnEndedSourceIsTheEndForLatecomers) {
  Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  StdinRelay relay(loop_, log_, null.get());
  Fd one = *relay.add(0);
  EXPECT_TRUE(set_nonblocking(one.get(), true));
  EXPECT_TRUE(run_until(loop_, [&] { return ended(one.get()); }));
  Fd two = *relay.add(1);
  EXPECT_TRUE(ended(two.get()));
}

TEST_F(StdinRelayTest, OneWhoDoesNotReadBlocksNobodyAndLosesItsStdin) {
  Pipe source = make_pipe();
  StdinRelay relay(loop_, log_, source.read.get());
  Fd idle = *relay.add(3), busy = *relay.add(1);
  ASSERT_TRUE(set_nonblocking(source.write.get(), true));
  std::string block(64 << 10, 'x');
  size_t sent = 0, got = 0;
  size_t total = StdinRelay::kBacklog + (1 << 20);
  EXPECT_TRUE(run_until(loop_, [&] {
    ssize_t n = sent < total ? ::write(source.write.get(), block.data(), block.size()) : 0;
    if (n > 0) sent += static_cast<size_t>(n);
    got += read_available(busy.get()).size();
    return got >= total && got == sent;
  }));
  EXPECT_THAT(said_, ::testing::HasSubstr("rank 3 does not read its stdin"));
  EXPECT_GT(read_available(idle.get()).size(), 0u);
  EXPECT_TRUE(ended(idle.get()));
}

TEST_F(StdinRelayTest, NobodyReadingMeansNothingIsTaken) {
  Pipe source = make_pipe();
  StdinRelay relay(loop_, log_, source.read.get());
  Fd idle = *relay.add(0);
  ASSERT_TRUE(set_nonblocking(source.write.get(), true));
  std::string block(64 << 10, 'x');
  size_t sent = 0;
  for (int i = 0; i < 200; ++i) {
    ssize_t n = ::write(source.write.get(), block.data(), block.size());
    if (n > 0) sent += static_cast<size_t>(n);
    loop_.run_until(Deadline::in(std::chrono::milliseconds(0)));
  }
  EXPECT_LT(sent, 1u << 20);
  EXPECT_EQ(said_, "");
}

TEST_F(StdinRelayTest, AWorkerThatHasGoneIsForgotten) {
  Pipe source = make_pipe();
  StdinRelay relay(loop_, log_, source.read.get());
  Fd one = *relay.add(0), two = *relay.add(1);
  one.reset();
  ASSERT_EQ(::write(source.write.get(), "x\n", 2), 2);
  std::string got;
  EXPECT_TRUE(run_until(loop_, [&] { return (got += read_available(two.get())) == "x\n"; }));
}

}  // namespace
}  // namespace muster::output
