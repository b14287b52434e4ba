#include "muster/base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,b,,", ','), testing::ElementsAre("a", "b", "", ""));
  EXPECT_THAT(split("", ','), testing::ElementsAre(""));
}

TEST(Strings, ParseIntWantsTheWholeText) {
  EXPECT_EQ(parse_int("-12"), -12);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "99999999999999999999"})
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
}

TEST(Strings, ShellQuoteRoundTripsThroughTheShell) {
  EXPECT_EQ(shell_quote("a/b-c=1"), "a/b-c=1");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("it's $x"), R"('it'\''s $x')");
  EXPECT_EQ(shell_quote(std::vector<std::string>{"a b", "c"}), "'a b' c");
}

TEST(Strings, EditDistance) {
  EXPECT_EQ(edit_distance("nproc", "nproc"), 0u);
  EXPECT_EQ(edit_distance("nporc", "nproc"), 2u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

}  // namespace
}  // namespace muster
