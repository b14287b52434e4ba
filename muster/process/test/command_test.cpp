#include "muster/process/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

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
