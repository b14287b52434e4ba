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

}  // namespace
}  // namespace muster
