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

}  // namespace
}  // namespace muster::agent
