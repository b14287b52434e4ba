#include "muster/agent/restart_policy.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(DecideRestart, CountsUpToTheLimit) {
  EXPECT_TRUE(decide_restart(0, 2, false).restart);
  EXPECT_EQ(decide_restart(0, 2, false).reason, "restart 1 of 2");
  EXPECT_EQ(decide_restart(1, 2, false).reason, "restart 2 of 2");
  EXPECT_FALSE(decide_restart(2, 2, false).restart);
  EXPECT_EQ(decide_restart(2, 2, false).reason, "all 2 restarts are used");
}

TEST(DecideRestart, NoneByDefault) {
  EXPECT_FALSE(decide_restart(0, 0, false).restart);
  EXPECT_EQ(decide_restart(0, 0, false).reason, "no restarts were asked for (--max-restarts)");
}

TEST(DecideRestart, NeverAgainstASignal) {
  EXPECT_FALSE(decide_restart(0, 2, true).restart);
  EXPECT_EQ(decide_restart(0, 2, true).reason, "a signal asked the job to end");
}

TEST(EndingOf, WithoutASignalTheWorkersDecide) {
  EXPECT_EQ(ending_of(false, false, false, true), Ending::kSucceeded);
  EXPECT_EQ(ending_of(true, false, false, false), Ending::kFailed);
}

TEST(EndingOf, ASignalCountsUnlessTheJobHadFailedForGoodBefore) {
  EXPECT_EQ(ending_of(false, true, false, true), Ending::kSignalled) << "they all obeyed and exited with 0";
  EXPECT_EQ(ending_of(true, true, false, false), Ending::kSignalled) << "they died of it";
  EXPECT_EQ(ending_of(true, true, true, true), Ending::kSignalled) << "it kept us from restarting";
  EXPECT_EQ(ending_of(true, true, true, false), Ending::kFailed);
}

}  // namespace
}  // namespace muster::agent
