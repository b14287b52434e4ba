#include "muster/environment/captured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/environment/set_up_failure.h"

namespace muster::environment {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using Pair = std::pair<std::string, std::string>;

std::string report(std::initializer_list<const char*> words) {
  std::string bytes;
  for (const char* word : words) bytes.append(word).push_back('\0');
  return bytes;
}

TEST(Captured, StepsThenTheEnvironment) {
  const Captured captured = parse_captured(
      report({"at", "0", "at", "1", "environment", "A=1", "B=x=y\nz", "at=3", "=odd", "BASH_FUNC_f%%=() { :\n}"}));
  EXPECT_EQ(captured.step, 1U);
  ASSERT_TRUE(captured.environment);
  EXPECT_THAT(*captured.environment,
              ElementsAre(Pair("A", "1"), Pair("B", "x=y\nz"), Pair("at", "3"), Pair("BASH_FUNC_f%%", "() { :\n}")));
}

TEST(Captured, WhatIsCutOffIsLeftOut) {
  const Captured captured = parse_captured(report({"environment", "A=1"}) + "B=half");
  EXPECT_THAT(*captured.environment, ElementsAre(Pair("A", "1")));
  EXPECT_FALSE(parse_captured("environment").environment);
  EXPECT_FALSE(parse_captured("").step);
}

TEST(Captured, AFailureIsTakenApart) {
  const Captured captured = parse_captured(report({"at", "2", "failed", "7", "3", "./setup.sh", "false"}));
  EXPECT_EQ(captured.failed, (Captured::Stop{7, 3, "./setup.sh", "false"}));
}

TEST(Settle, LeavesOutWhatIsTheShells) {
  EXPECT_THAT(settle({{"A", "new"},
                      {"_", "/bin/cat"},
                      {"SHLVL", "2"},
                      {"PWD", "/elsewhere"},
                      {"__muster_now", "x"},
                      {"BASH_FUNC___muster_say%%", "() { :; }"},
                      {"BASH_FUNC_mine%%", "() { :; }"}},
                     {{"A", "old"},
                      {"_", "/bin/muster"},
                      {"SHLVL", "1"},
                      {"PWD", "/here"},
                      {"GONE", "1"},
                      {"odd.name", "kept"},
                      {"BASH_FUNC_gone%%", "() { :; }"}}),
              UnorderedElementsAre(Pair("A", "new"), Pair("BASH_FUNC_mine%%", "() { :; }"), Pair("_", "/bin/muster"),
                                   Pair("SHLVL", "1"), Pair("PWD", "/here"), Pair("odd.name", "kept")));
}

class Explained : public ::testing::Test {
 protected:
  std::string text(const Step& step, const Captured& captured, process::ExitStatus status = {.code = 1}) {
    Captured at = captured;
    at.step = 0;
    return explain_failure({step}, at, status,
                           [](const std::string& file, int line) {
                             return file == "./setup.sh" && line == 3 ? "  module load x  # mine" : "";
                           })
        .text();
  }
  static Captured failed(int status, int line, std::string file, std::string command) {
    Captured captured;
    captured.failed = {status, line, std::move(file), std::move(command)};
    return captured;
  }
  using Kind = Step::Kind;
};

TEST_F(Explained, ALineIsShownAsItsAuthorWroteIt) {
  EXPECT_EQ(text({Kind::kSource, "./setup.sh"}, failed(4, 3, "./setup.sh", "module load x")),
            "line 3 of ./setup.sh, `module load x  # mine`, failed with exit code 4");
  EXPECT_EQ(text({Kind::kSource, "./setup.sh"}, failed(4, 9, "./setup.sh", "from bash")),
            "line 9 of ./setup.sh, `from bash`, failed with exit code 4");
  EXPECT_EQ(text({Kind::kCommand, "true\n  false || f\ntrue"}, failed(1, 2, "", "f")),
            "line 2 of --prologue, `false || f`, failed with exit code 1");
  EXPECT_EQ(text({Kind::kCommand, "false"}, failed(1, 1, "environment", "false")),
            "--prologue `false` failed with exit code 1");
}

TEST_F(Explained, WithoutAControlCharacter) {
  EXPECT_EQ(text({Kind::kSource, "./a\x1b[2J"}, failed(4, 9, "./a\x1b[2J", "x\r\x07")),
            "line 9 of ./a\\x1b[2J, `x\\x0d\\x07`, failed with exit code 4");
}

TEST_F(Explained, AStepOfOursIsNamedAsAWholeWithTheWayOut) {
  EXPECT_EQ(text({Kind::kModule, "nope"}, failed(1, 1, "", "module load \"$__muster_now\"")),
            "`module load nope` failed with exit code 1; `module avail` on that node lists those that exist");
  EXPECT_EQ(text({Kind::kConda, "nope"}, failed(1, 1, "", "x")),
            "`conda activate nope` failed with exit code 1; `conda env list` on that node lists those that exist");
  EXPECT_EQ(text({Kind::kVenv, "v"}, failed(1, 1, "", "x")),
            "`source v/bin/activate` failed with exit code 1; `python -m venv DIR` makes one");
  EXPECT_EQ(text({Kind::kSource, "./setup.sh"}, failed(3, 1, "", "source")),
            "`source ./setup.sh` failed with exit code 3");
}

TEST_F(Explained, AShellThatIsGoneToo) {
  Captured exited;
  exited.exited = {0, 3, "./setup.sh", ""};
  EXPECT_EQ(
      text({Kind::kSource, "./setup.sh"}, exited, {.code = 0}),
      "line 3 of ./setup.sh, `module load x  # mine`, ends the set-up with exit code 0; a file that is sourced ends "
      "with return, not with exit");
  EXPECT_EQ(text({Kind::kCommand, "kill -9 $$"}, {}, {.signal = 9}), "`kill -9 $$` was ended by SIGKILL (signal 9)");
  EXPECT_EQ(text({Kind::kCommand, "exec true"}, {}, {.code = 0}),
            "`exec true` ended the shell (exit code 0) before its environment was known; leave out exec, and set -e "
            "inside of functions");
}

}  // namespace
}  // namespace muster::environment
