#include "muster/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Environment, FindsTheFirstOfAName) {
  const Environment environment = {{"A", "1"}, {"B", ""}, {"A", "2"}};
  EXPECT_EQ(environment.get("A"), "1");
  EXPECT_EQ(environment.get("B"), "");
  EXPECT_EQ(environment.get("C"), std::nullopt);
  EXPECT_TRUE(environment.has("B"));
  EXPECT_EQ(environment.find("C"), nullptr);
}

TEST(Environment, SetKeepsThePlaceAndLeavesTheNameOnce) {
  Environment environment = {{"A", "1"}, {"B", "2"}, {"A", "3"}};
  environment.set("A", "4");
  environment.set("C", "5");
  EXPECT_THAT(environment, ElementsAre(Pair("A", "4"), Pair("B", "2"), Pair("C", "5")));
}

TEST(Environment, OfSeveralValuesTheLastIsSet) {
  Environment environment = {{"A", "1"}, {"B", "2"}};
  environment.set_all({{"B", "3"}, {"C", "4"}, {"C", "5"}});
  EXPECT_THAT(environment, ElementsAre(Pair("A", "1"), Pair("B", "3"), Pair("C", "5")));
}

TEST(Environment, Erases) {
  Environment environment = {{"A", "1"}, {"LC_ALL", "C"}, {"LC_TIME", "C"}, {"A", "2"}};
  environment.erase("A");
  EXPECT_EQ(environment.size(), 2U);
  environment.erase_if([](const std::string& name) { return name.starts_with("LC_"); });
  EXPECT_TRUE(environment.empty());
}

TEST(Environment, OfThisProcess) {
  ::setenv("MUSTER_TEST_OWN", "a=b", 1);
  EXPECT_EQ(own_environment().get("MUSTER_TEST_OWN"), "a=b");
  ::unsetenv("MUSTER_TEST_OWN");
  EXPECT_FALSE(own_environment().has("MUSTER_TEST_OWN"));
}

}  // namespace
}  // namespace muster
