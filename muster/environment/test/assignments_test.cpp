#include "muster/environment/assignments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::environment {
namespace {

using ::testing::ElementsAre;

using Pair = std::pair<std::string, std::string>;

Assignment set(std::string name, std::string value) { return {std::move(name), std::move(value)}; }

TEST(EnvFile, ReadsWhatPeopleWrite) {
  auto all = parse_env_file(
      "\xef\xbb\xbf# first\r\n"
      "\n"
      "A=1\r\n"
      "  export B = two words  # a comment\n"
      "C=a#b\n"
      "D=\n"
      "E=\"a \\\"b\\\"\\n\\tc \\$HOME \\q\" # comment\n"
      "F='as \\n it is # here'\n"
      "G='two\nlines'\n"
      "HANDED_ON\n"
      "exporter=x\n"
      "URL=postgres://u:p@h/db?x=1");
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_THAT(*all, ElementsAre(set("A", "1"), set("B", "two words"), set("C", "a#b"), set("D", ""),
                                set("E", "a \"b\"\n\tc $HOME \\q"), set("F", "as \\n it is # here"),
                                set("G", "two\nlines"), Assignment{"HANDED_ON", std::nullopt}, set("exporter", "x"),
                                set("URL", "postgres://u:p@h/db?x=1")));
}

TEST(EnvFile, NamesTheLineThatIsWrong) {
  auto message = [](const char* text) {
    auto all = parse_env_file(text);
    return all ? "accepted" : all.error().message;
  };
  EXPECT_EQ(message("A=1\n=2\n"), "line 2: '' is not a name of a variable");
  EXPECT_EQ(message("A='x\ny'\nif true; then\n"), "line 3: 'if true; then' is not a name of a variable");
  EXPECT_EQ(message("A=1\nB=\"x\n\n"), "line 2: the \" that opens here is never closed");
  EXPECT_EQ(message("A='x' y\n"), "line 1: something follows the closing quote");
}

TEST(Assignment, IsANameWithOrWithoutAValue) {
  EXPECT_EQ(*parse_assignment("A=b=c"), set("A", "b=c"));
  EXPECT_EQ(*parse_assignment("A="), set("A", ""));
  EXPECT_EQ(*parse_assignment("A"), (Assignment{"A", std::nullopt}));
  EXPECT_FALSE(parse_assignment("=x"));
  EXPECT_FALSE(parse_assignment(""));
  EXPECT_FALSE(parse_assignment("A B=x"));
  EXPECT_EQ(parse_assignment("A\x1b[2J=x").error().message, "'A\\x1b[2J' is not a name of a variable");
}

TEST(Assignment, NamesAloneAreFilledInWhereTheyAreSet) {
  auto getenv = [](const std::string& name) -> std::optional<std::string> {
    return name == "HERE" ? std::optional<std::string>("yes") : std::nullopt;
  };
  EXPECT_THAT(fill_in({{"HERE", std::nullopt}, {"NOWHERE", std::nullopt}, {"A", "1"}}, getenv),
              ElementsAre(Pair("HERE", "yes"), Pair("A", "1")));
}

TEST(Assignment, TheLastOneWins) {
  EXPECT_THAT(fill_in({{"A", "1"}, {"B", "2"}, {"A", "3"}}, nullptr), ElementsAre(Pair("A", "3"), Pair("B", "2")));
}

}  // namespace
}  // namespace muster::environment
