#include "muster/agent/warden_link.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(WardenLink, HasNoLeaseBeforeThereAreTerms) {
  WardenLink link;
  EXPECT_EQ(link.terms().has_value(), false);
  EXPECT_LT(link.lease_until(), Clock::now());
}

TEST(WardenLink, TheLeaseBeginsWhenTheNodeAskedToBeTaken) {
  WardenLink link;
  const TimePoint asked = Clock::now() - std::chrono::seconds(20);
  link.set_terms({.node = 7, .lease = std::chrono::seconds(10), .coordinator = {}, .since = asked});
  ASSERT_TRUE(link.terms());
  EXPECT_EQ(link.terms()->node, 7);
  EXPECT_EQ(link.lease_until(), asked + std::chrono::seconds(10)) << "not when the answer came";
  const TimePoint later = Clock::now() + std::chrono::seconds(3);
  link.extend_lease(later);
  EXPECT_EQ(link.lease_until(), later);
}

}  // namespace
}  // namespace muster::agent
