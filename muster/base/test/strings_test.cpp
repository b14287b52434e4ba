#include "muster/base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,b,,", ','), testing::ElementsAre("a", "b", "", ""));
  EXPECT_THAT(split("", ','), testing::ElementsAre(""));
}

TEST(Strings, CaseIsThatOfAsciiAlone) {
  EXPECT_EQ(lower_case("GiB Ä"), "gib Ä");
  EXPECT_EQ(upper_case("usr1 ä"), "USR1 ä");
}

TEST(Strings, CharactersAreNotBytes) {
  EXPECT_EQ(count_characters(""), 0u);
  EXPECT_EQ(count_characters("a…ä"), 3u);
}

TEST(Strings, NumberRanges) {
  EXPECT_EQ(number_ranges({}, ","), "");
  EXPECT_EQ(number_ranges({5}, ","), "5");
  EXPECT_EQ(number_ranges({0, 1, 2, 3, 8}, ","), "0-3,8");
  EXPECT_EQ(number_ranges({0, 2, 3}, ", "), "0, 2-3");
}

TEST(Strings, SecondsAreNeverAPowerOfTen) {
  using namespace std::chrono_literals;
  EXPECT_EQ(seconds_text(250ms), "0.25 s");
  EXPECT_EQ(seconds_text(3s), "3 s");
  EXPECT_EQ(seconds_text(99960ms), "100 s");
  EXPECT_EQ(seconds_text(1h), "3600 s");
  EXPECT_EQ(elapsed_text(250ms), "0.2 s");
  EXPECT_EQ(elapsed_text(3s), "3.0 s");
  EXPECT_EQ(elapsed_text(1h), "3600 s");
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
  EXPECT_EQ(edit_distance("nporc", "nproc"), 1u) << "two neighbours swapped are one slip";
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(NearestWord, IsOneOfFewEdits) {
  EXPECT_EQ(nearest_word("lanch", {"config", "launch"}), "launch");
  EXPECT_EQ(nearest_word("test", {"launch"}), std::nullopt);
  EXPECT_EQ(nearest_word("no", {"on", "ps"}), std::nullopt) << "nothing of it is left";
  EXPECT_EQ(nearest_word("fsh", {"bash", "zsh", "fish"}), "fish");
  EXPECT_EQ(nearest_word("", {"a", "launch"}), std::nullopt);
  EXPECT_EQ(nearest_word("stop", {"store", "status"}), std::nullopt) << "another word";
}

}  // namespace
}  // namespace muster
