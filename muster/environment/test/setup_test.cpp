#include "muster/environment/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::environment {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Step::Kind;

TEST(Setup, ModulesThenCondaThenVenvThenPrologues) {
  environment::Setup setup;
  setup.prologues = {"setup.sh", "/x/prepare.py", "export A=1", "tool"};
  setup.venv = "v";
  setup.conda = "base";
  setup.modules = {"gcc", "cuda"};
  auto head = [](const std::string& path) -> std::optional<std::string> {
    if (path == "setup.sh") return "export B=1\n";
    if (path == "/x/prepare.py") return "#!/usr/bin/env python3\n";
    return std::nullopt;
  };
  EXPECT_THAT(steps(setup, head), ElementsAre(Step{Kind::kModule, "gcc"}, Step{Kind::kModule, "cuda"},
                                              Step{Kind::kConda, "base"}, Step{Kind::kVenv, "v"},
                                              Step{Kind::kSource, "./setup.sh"}, Step{Kind::kCommand, "/x/prepare.py"},
                                              Step{Kind::kCommand, "export A=1"}, Step{Kind::kCommand, "tool"}));
}

TEST(Setup, OnlyShellScriptsAreSourced) {
  for (const char* head : {"", "export A=1", "#!/bin/sh\n", "#!/bin/bash -e\nx", "#! /usr/bin/env bash\n",
                           "#!/usr/bin/env -S A=1 bash -x\n", "#!/usr/bin/zsh", "#!\n"})
    EXPECT_TRUE(is_sourced(head)) << head;
  for (const char* head :
       {"\177ELF\2", "#!/usr/bin/env python3\n", "#!/usr/bin/perl -w\n", "#!/bin/tcsh\n", "#!/usr/bin/fish"})
    EXPECT_FALSE(is_sourced(head)) << head;
}

TEST(Setup, TheScriptHasOneLineAndNothingOfTheSteps) {
  const std::vector<Step> steps = {{Kind::kCommand, "export TOKEN=hush\nb"}, {Kind::kVenv, "hush"}};
  const auto words = shell_command("/bin/bash", "/bin/cat", steps);
  ASSERT_EQ(words.size(), 7U);
  EXPECT_THAT(words[4], Not(HasSubstr("\n")));
  EXPECT_THAT(words, Each(Not(HasSubstr("hush"))));
  EXPECT_EQ(shell_input(steps), std::string("export TOKEN=hush\nb\0hush\0", 25));
}

TEST(Setup, StepsAreCalledWhatPeopleWouldType) {
  EXPECT_EQ((Step{Kind::kModule, "gcc"}.title()), "module load gcc");
  EXPECT_EQ((Step{Kind::kVenv, "/v"}.title()), "source /v/bin/activate");
  EXPECT_EQ((Step{Kind::kCommand, "  a b\nc"}.title()), "a b");
  EXPECT_EQ((Step{Kind::kCommand, "export HF_TOKEN=hush; sleep 9\nc"}.title()), "export HF_TOKEN=***");
  EXPECT_EQ((Step{Kind::kModule, "gcc\x1b[2J"}.title()), "module load gcc\\x1b[2J");
}

}  // namespace
}  // namespace muster::environment
