#include "muster/base/result.h"
#include "muster/base/usage_error.h"

#include <gtest/gtest.h>

#include <memory>

namespace muster {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return usage_error("{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  MUSTER_TRY(int h, half(n));
  return half(h);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*half(4), 2);
  EXPECT_EQ(half(3).error().message, "3 is odd");
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Result, MovesOutOfTemporary) {
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  std::unique_ptr<int> value = *make();
  EXPECT_EQ(*value, 7);
}

TEST(Error, TextJoinsMessageAndHint) {
  EXPECT_EQ((Error{ErrorKind::kUsage, "no script", "give one"}.text()), "no script; give one");
  EXPECT_EQ(usage_error("no {}", "\r\x1b[2K\nmuster: all is well").text(), "no \\x0d\\x1b[2K\\x0amuster: all is well");
  EXPECT_EQ(exit_code(usage_error("x")), 2);
  EXPECT_EQ(exit_code(system_error(2, "open")), 125);
}

TEST(ResultDeathTest, ReadingTheWrongSideAborts) { EXPECT_DEATH(half(3).value(), "internal error"); }

}  // namespace
}  // namespace muster
