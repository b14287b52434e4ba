#include "muster/launcher/retry_policy.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

TEST(RetryPolicy, TriesForEverWhileThereAreTooFew) {
  for (int attempts : {1, 3, 100}) {
    RetryDecision decision = decide_retry(attempts, true, false);
    EXPECT_TRUE(decision.again);
    EXPECT_FALSE(decision.hopeless);
    EXPECT_LE(decision.after, std::chrono::seconds(5));
  }
}

TEST(RetryPolicy, ThreeTimesWhenThereAreEnough) {
  EXPECT_TRUE(decide_retry(2, true, true).again);
  EXPECT_FALSE(decide_retry(3, true, true).again);
  EXPECT_TRUE(decide_retry(3, true, true).hopeless);
}

TEST(RetryPolicy, NotAgainWhatCannotBeMended) {
  EXPECT_FALSE(decide_retry(1, false, false).again);
  EXPECT_TRUE(decide_retry(1, false, false).hopeless);
}

}  // namespace
}  // namespace muster::launcher
