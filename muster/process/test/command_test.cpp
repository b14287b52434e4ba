#include "muster/process/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/pipe.h"

namespace muster::process {
namespace {

using ::testing::HasSubstr;

const Environment kEnvironment = {{"PATH", "/usr/bin:/bin"}, {"WORD", "hello"}};

Result<CommandOutput> shell(const std::string& script, Duration limit = std::chrono::seconds(20)) {
  return run_command({"sh", "-c", script}, kEnvironment, Deadline::in(limit));
}

TEST(Command, WhatItSaysAndHowItEnds) {
  auto ran = shell("echo $WORD; echo oops >&2; exit 3");
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->output, "hello\n");
  EXPECT_EQ(ran->errors, "oops\n");
  EXPECT_EQ(ran->status.code, 3);
}

TEST(Command, MoreThanAPipeHoldsIsReadAndWhatIsTooMuchDropped) {
  auto ran = shell("head -c 3000000 /dev/zero; echo end >&2");
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->output.size(), 1U << 20);
  EXPECT_EQ(ran->errors, "end\n");
}

TEST(Command, ReadsNothingFromOurStdin) {
  auto ran = shell("cat; echo done");
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->output, "done\n");
}

TEST(Command, KilledAtTheDeadlineWithItsChildren) {
  auto ran = shell("sleep 600 & sleep 600", std::chrono::milliseconds(100));
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(ran.error().message, "sh did not answer in time");
  auto flood = run_command({"yes"}, kEnvironment, Deadline::in(std::chrono::milliseconds(100)));
  ASSERT_FALSE(flood.ok());
  EXPECT_EQ(flood.error().kind, ErrorKind::kTimeout);
}

Result<CommandOutput> kept(const std::string& text, int launcher = -1) {
  return run_kept_command({"sh", "-c", text}, kEnvironment, Deadline::in(std::chrono::seconds(60)), launcher);
}

TEST(KeptCommand, IsACommand) {
  auto ran = kept("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->status.code, 3);
  EXPECT_EQ(ran->output, "out\n");
  EXPECT_EQ(ran->errors, "err\n");
  auto none = run_kept_command({"no-such-program"}, kEnvironment, Deadline::in(std::chrono::seconds(60)), -1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
  auto late = run_kept_command({"sh", "-c", "setsid sleep 1000 & sleep 1000"}, kEnvironment,
                               Deadline::in(std::chrono::milliseconds(50)), -1);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nothing is below us any more
}

TEST(KeptCommand, EndsWithTheLauncher) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe.ok());
  EXPECT_TRUE(kept("true", pipe->read.get()).ok());
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::pause();
    ::_exit(0);
  }
  pipe->write.reset();
  auto ran = kept("setsid sleep 1000 & kill " + std::to_string(launcher) + "; sleep 1000", pipe->read.get());
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::kPeer);
  EXPECT_EQ(::waitpid(launcher, nullptr, 0), launcher);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(KeptCommand, EndsAtASignal) {
  auto ran = kept("setsid sleep 1000 & kill -TERM " + std::to_string(::getpid()) + "; sleep 1000");
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(ran.error().text(), "SIGTERM interrupted sh");
  EXPECT_EQ(exit_code(ran.error()), 128 + SIGTERM);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Command, WhatItLeavesBehindIsNotWaitedFor) {
  auto ran = shell("sleep 600 & echo $!");
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(::kill(std::stoi(ran->output), SIGKILL), 0);
}

TEST(Command, NotThere) {
  auto ran = run_command({"no-such-command"}, kEnvironment, Deadline::in(std::chrono::seconds(1)));
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(ran.error().message, HasSubstr("no-such-command"));
}

TEST(Command, LastLine) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line("a\n  b \n\n"), "b");
  EXPECT_EQ(last_line("a"), "a");
}

}  // namespace
}  // namespace muster::process
