#include "muster/process/pty.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "helpers.h"

namespace muster::process {
namespace {

// Everything up to the EIO that ends a pseudo-terminal.
std::string drain(int master) {
  std::string text;
  char buffer[256];
  for (;;) {
    pollfd entry{master, POLLIN, 0};
    if (poll(&entry, 1, 20'000) != 1) return text + "<timeout>";
    ssize_t size = read(master, buffer, sizeof buffer);
    if (size <= 0) return size < 0 && errno == EIO ? text : text + "<odd end>";
    text.append(buffer, static_cast<size_t>(size));
  }
}

TEST(Pty, AWorkerSeesATerminalAndItsOutputIsUnchanged) {
  auto pty = open_pty(-1);
  ASSERT_TRUE(pty.ok());
  SpawnSpec spec = test::shell("test -t 1 && printf 'yes\\nno\\r\\n'; test -t 2 || printf 'stderr is none\\n'");
  test::Pipe pipe = test::make_pipe();
  spec.stdout_fd = pty->slave.get();
  spec.stderr_fd = pipe.write.get();
  auto child = spawn(spec);
  ASSERT_TRUE(child.ok());
  pty->slave.reset();
  EXPECT_EQ(drain(pty->master.get()), "yes\nno\r\nstderr is none\n");
  EXPECT_EQ(test::await_exit(*child), ExitStatus{});
}

TEST(Pty, IsNobodysControllingTerminal) {
  auto pty = open_pty(-1);
  ASSERT_TRUE(pty.ok());
  SpawnSpec spec = test::shell("(: </dev/tty) 2>/dev/null && echo has one || echo has none");
  spec.stdout_fd = pty->slave.get();
  auto child = spawn(spec);
  ASSERT_TRUE(child.ok());
  pty->slave.reset();
  EXPECT_EQ(drain(pty->master.get()), "has none\n");
  EXPECT_TRUE(test::await_exit(*child));
}

TEST(Pty, HasTheSizeOfAnother) {
  auto like = open_pty(-1);
  ASSERT_TRUE(like.ok());
  winsize size{.ws_row = 33, .ws_col = 121, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(like->master.get(), TIOCSWINSZ, &size), 0);
  auto pty = open_pty(like->slave.get());
  ASSERT_TRUE(pty.ok());
  winsize seen{};
  ASSERT_EQ(ioctl(pty->slave.get(), TIOCGWINSZ, &seen), 0);
  EXPECT_EQ(seen.ws_row, 33);
  EXPECT_EQ(seen.ws_col, 121);

  size.ws_col = 80;
  ASSERT_EQ(ioctl(like->master.get(), TIOCSWINSZ, &size), 0);
  copy_window_size(like->slave.get(), pty->master.get());
  ASSERT_EQ(ioctl(pty->slave.get(), TIOCGWINSZ, &seen), 0);
  EXPECT_EQ(seen.ws_col, 80);
}

TEST(Pty, MasterNeverBlocks) {
  auto pty = open_pty(-1);
  ASSERT_TRUE(pty.ok());
  char c;
  EXPECT_EQ(read(pty->master.get(), &c, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(fcntl(pty->master.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(pty->slave.get(), F_GETFD) & FD_CLOEXEC);
}

}  // namespace
}  // namespace muster::process
