#include "muster/container/turn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "muster/base/random.h"
#include "muster/base/strings.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Turns : public testing::Test {
 protected:
  Turns() { fs::create_directories(base_); }
  ~Turns() override {
    if (holder_ > 0) end();
    fs::remove_all(base_);
  }

  Turn turn(const std::string& host, Duration patience = seconds(30)) const {
    return {.lock = base_ / ".torch.lock", .container = "torch", .host = host, .deadline = Deadline::in(patience)};
  }

  // Another process has the lock when this returns.
  void hold(const std::string& host) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    holder_ = ::fork();
    if (holder_ == 0) {
      const auto held = take(turn(host));
      (void)!::write(ready[1], held ? "y" : "n", 1);
      for (;;) ::pause();
    }
    char said = 0;
    ASSERT_EQ(::read(ready[0], &said, 1), 1);
    ASSERT_EQ(said, 'y');
    for (int fd : ready) ::close(fd);
  }
  void end() {
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
    holder_ = -1;
  }

  fs::path base_ = fs::temp_directory_path() / ("muster-turn-" + random_uuid());
  pid_t holder_ = -1;
};

TEST_F(Turns, TheLockIsThatOfOneProcessUntilItIsKilled) {
  hold("n1");
  std::vector<std::string> waited_for;
  Turn mine = turn("n2");
  mine.waiting = [&](const std::string& host) {
    waited_for.push_back(host);
    end();
  };
  const auto held = take(mine);
  ASSERT_TRUE(held) << held.error().text();
  EXPECT_TRUE(*held);
  EXPECT_EQ(waited_for, std::vector<std::string>{"n1"});
  EXPECT_EQ(read_file(mine.lock).value(), "n2\n");
}

TEST_F(Turns, TheDeadlineEndsTheWaitAndNamesTheHolder) {
  hold("n1");
  const auto held = take(turn("n2", milliseconds(1)));
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(held.error().text(),
            fmt::format("n2: n1 did not finish making the container torch in time: it holds {}/.torch.lock; wait for "
                        "n1, or raise --join-timeout",
                        base_.string()));
}

TEST_F(Turns, TheLaunchersEndEndsTheWait) {
  hold("n1");
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Turn mine = turn("n2");
  mine.launcher = pair[0];
  mine.waiting = [&](const std::string&) { ::close(pair[1]); };
  const auto held = take(mine);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().kind, ErrorKind::kPeer);
  ::close(pair[0]);
}

TEST_F(Turns, AHolderWithoutANameIsAnotherMuster) {
  hold("\n");
  std::string waited_for;
  Turn mine = turn("n2");
  mine.waiting = [&](const std::string& host) {
    waited_for = host;
    end();
  };
  ASSERT_TRUE(take(mine));
  EXPECT_EQ(waited_for, "another muster");
}

TEST_F(Turns, APlaceWithoutALockIsAnError) {
  Turn mine = turn("n2");
  mine.lock = base_ / "none/.torch.lock";
  const auto held = take(mine);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().message, fmt::format("n2: cannot open {}: No such file or directory", mine.lock));
}

}  // namespace
}  // namespace muster::container
