#include "muster/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Random, UuidIsOfVersionFourAndNewEachTime) {
  constexpr const char* kForm = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
  std::string first = random_uuid();
  std::string second = random_uuid();
  EXPECT_THAT(first, testing::MatchesRegex(kForm));
  EXPECT_THAT(second, testing::MatchesRegex(kForm));
  EXPECT_NE(first, second);
}

TEST(Random, JobIdsHaveAFixedLengthAndAreNewEachTime) {
  const std::string first = random_job_id();
  EXPECT_THAT(first, testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_NE(first, random_job_id());
}

}  // namespace
}  // namespace muster
