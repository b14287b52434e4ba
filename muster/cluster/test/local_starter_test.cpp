#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <fstream>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/cluster/description.h"
#include "muster/cluster/local/starter.h"

namespace muster::cluster::local {
namespace {

using test::contents;
using test::run_until;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalStarterTest : public ::testing::Test {
 protected:
  void make(const std::string& script) {
    starter_ = make_starter(loop_, dir_.script("muster", script), {{"PATH", "/usr/bin:/bin"}, {"DIR", dir_.path()}},
                            told_.handlers());
  }
  bool until(const std::string& start) {
    return run_until(loop_, [&] { return told_.has(start); });
  }

  test::TempDir dir_;
  net::EventLoop loop_;
  test::Told told_;
  std::unique_ptr<Starter> starter_;
};

TEST_F(LocalStarterTest, DescriptionOnStdinAndNothingElsewhere) {
  make(
      "echo greeting; head -c 9 >$DIR/got; echo \"$@\" >$DIR/arguments; env >$DIR/env; echo read >&2; read more; exit "
      "9");
  starter_->start(3, {"local", {}}, "the token");
  ASSERT_TRUE(until("3 said read"));
  EXPECT_EQ(contents(dir_ / "got"), "the token");
  EXPECT_EQ(contents(dir_ / "arguments"), "agent\n");
  EXPECT_THAT(contents(dir_ / "env"), ::testing::Not(HasSubstr("token")));
  EXPECT_FALSE(told_.has("3 failed")) << "stdin must stay open";
}

TEST_F(LocalStarterTest, DescriptionLargerThanAnyBuffer) {
  make("head -c 5000000 | sha256sum >&2; read more");
  starter_->start(0, {"local", {}}, std::string(5000000, 'x'));
  EXPECT_TRUE(until("0 said 03a7bd518f3e4ecac11f2e77f7437928ba5d80ac0b2b26a523d90e7628bfd59b"));
}

TEST_F(LocalStarterTest, AnEndIsTold) {
  make("echo one >&2; printf two >&2; exit 7");
  starter_->start(0, {"local", {}}, "");
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines, ElementsAre("0 progress starting", "0 said one", "0 said two",
                                       "0 failed the agent ended: exit code 7 (two)"));
}

TEST_F(LocalStarterTest, StartedAgainAfterAnEnd) {
  make("kill -KILL $$");
  starter_->start(0, {"local", {}}, "");
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines, Contains("0 failed the agent ended: SIGKILL (signal 9) (again)"));
  told_.lines.clear();
  starter_->start(0, {"local", {}}, "");
  EXPECT_TRUE(until("0 failed"));
}

TEST_F(LocalStarterTest, AgentsThatJoinedMayComeBack) {
  make("echo up >&2; until [ -e $DIR/end ]; do sleep 0.01; done; exit 125");
  starter_->start(0, {"local", {}}, "");
  ASSERT_TRUE(until("0 said up"));
  starter_->joined(0);
  std::ofstream(dir_ / "end") << "now";
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines, Contains("0 failed the agent ended: exit code 125 (again)"));
}

TEST_F(LocalStarterTest, AProgramThatIsNotThere) {
  starter_ = make_starter(loop_, dir_ / "none", {}, told_.handlers());
  starter_->start(0, {"local", {}}, "");
  EXPECT_TRUE(told_.lines.empty()) << "told from the loop only";
  ASSERT_TRUE(until("0 failed"));
  EXPECT_THAT(told_.lines, ElementsAre(HasSubstr("No such file")));
}

TEST_F(LocalStarterTest, TheEndOfTheStarterIsTheEndOfItsAgents) {
  make("trap 'echo asked >$DIR/asked; exit 0' TERM; echo $$ >&2; while :; do sleep 0.05; done");
  starter_->start(0, {"a", {}}, "");
  ASSERT_TRUE(until("0 said"));
  pid_t pid = static_cast<pid_t>(*parse_int(told_.lines.back().substr(7)));
  EXPECT_EQ(kill(pid, 0), 0);
  starter_.reset();
  EXPECT_EQ(kill(pid, 0), -1) << "gone and reaped";
  EXPECT_EQ(contents(dir_ / "asked"), "asked\n");
}

TEST_F(LocalStarterTest, OneThatIsAbandonedMayCleanUp) {
  make("echo up >&2; read end; sleep 0.2; echo cleaned >&2");
  starter_->start(0, {"a", {}}, "");
  ASSERT_TRUE(until("0 said up"));
  starter_->abandon(0);
  told_.lines.clear();
  starter_->start(0, {"a", {}}, "");  // its successor
  ASSERT_TRUE(until("0 said up"));
  ASSERT_TRUE(until("0 said cleaned"));
  EXPECT_FALSE(told_.has("0 failed"));
}

TEST_F(LocalStarterTest, OneThatIsAbandonedDoesNotOutliveTheStarter) {
  make("echo $$ >&2; while :; do sleep 0.05; done");
  starter_->start(0, {"a", {}}, "");
  ASSERT_TRUE(until("0 said"));
  pid_t pid = static_cast<pid_t>(*parse_int(told_.lines.back().substr(7)));
  starter_->abandon(0);
  EXPECT_EQ(kill(pid, 0), 0);
  starter_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(LocalStarterTest, AnAgentThatDoesNotListenIsKilled) {
  make("trap '' TERM; echo $$ >&2; while :; do sleep 0.05; done");
  starter_->start(0, {"a", {}}, "");
  ASSERT_TRUE(until("0 said"));
  pid_t pid = static_cast<pid_t>(*parse_int(told_.lines.back().substr(7)));
  starter_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace muster::cluster::local
