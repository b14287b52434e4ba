#include "muster/cli/help.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "muster/base/strings.h"
#include "muster/cli/completion.h"
#include "muster/cli/man_page.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Options, EverySpellingNamesOneOptionOfAVerb) {
  for (const VerbInfo& verb : verbs()) {
    std::set<std::string> seen;
    for (const Option& option : options()) {
      if (!option.in(verb.verb)) continue;
      EXPECT_TRUE(seen.insert(dashed(option)).second) << dashed(option);
      if (option.short_flag == 0) continue;
      EXPECT_TRUE(seen.insert({'-', option.short_flag}).second) << option.name;
    }
  }
}

TEST(Options, DerivedNames) {
  const Option& nproc = option(Opt::kNprocPerNode);
  EXPECT_EQ(dashed(nproc), "--nproc-per-node");
  EXPECT_EQ(underscored(nproc), "--nproc_per_node");
  EXPECT_EQ(pet_variable(nproc), "PET_NPROC_PER_NODE");
  EXPECT_EQ(underscored(option(Opt::kNnodes)), "");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Help, NamesEveryOptionAndStaysInItsWidth) {
  for (int width : {60, 80, 100}) {
    for (const VerbInfo& verb : verbs()) {
      std::string text = verb_help(verb.verb, "muster x", Detail::kAll, {width, false});
      for (const Option& option : options()) {
        if (option.in(verb.verb)) {
          EXPECT_THAT(text, HasSubstr(dashed(option)));
        }
      }
      EXPECT_THAT(text, HasSubstr("Examples:"));
      EXPECT_THAT(text, Not(HasSubstr("\033")));
      for (const std::string& line : lines_of(text)) {
        // Commands to copy, the names of options and argparse's usage stay whole.
        if ((line.starts_with("      ") && !line.starts_with("       ")) || !line.starts_with(" ")) {
          EXPECT_LE(count_characters(line), static_cast<size_t>(width)) << line;
        }
      }
    }
  }
}

TEST(Help, FitsAScreenUnlessTorchrunsUsersExpectEveryOption) {
  constexpr size_t kLines = 40, kColumns = 80;
  std::vector<std::string> texts = {general_help({kColumns, false})};
  for (const VerbInfo& verb : verbs())
    if (verb.verb != Verb::kTorchrun && verb.verb != Verb::kLaunch)
      texts.push_back(verb_help(verb.verb, "muster " + std::string(verb.name), Detail::kCommon, {kColumns, false}));
  for (const std::string& text : texts) {
    EXPECT_LE(lines_of(text).size(), kLines) << text;
    for (const std::string& line : lines_of(text)) EXPECT_LE(count_characters(line), kColumns) << line;
  }
}

TEST(Help, ShowsTheCommonOptionsAndWhereTheOthersAre) {
  const std::string text = verb_help(Verb::kRun, "muster run", Detail::kCommon, {80, false});
  for (const Option& option : options()) {
    if (!option.in(Verb::kRun)) continue;
    const std::string line = "\n  " + option_heading(option);
    EXPECT_THAT(text, option.common ? testing::Matcher<std::string>(HasSubstr(line)) : Not(HasSubstr(line)));
  }
  EXPECT_THAT(text, HasSubstr("muster run --help-all shows all options"));
  EXPECT_THAT(text, HasSubstr("  --max-restarts N      How often to start all workers again after a failure\n"
                              "                        (default: 0)\n"));
}

TEST(Help, TorchrunsIsArgparsesAndHasEveryOption) {
  const std::string text = verb_help(Verb::kTorchrun, "torchrun", Detail::kCommon, {80, false});
  EXPECT_THAT(text, testing::StartsWith(argparse_usage(Verb::kTorchrun, "torchrun", 80)));
  EXPECT_EQ(text, verb_help(Verb::kTorchrun, "torchrun", Detail::kAll, {80, false}));
}

TEST(Help, HeadingsStandOutOnATerminal) {
  for (Detail detail : {Detail::kCommon, Detail::kAll})
    EXPECT_THAT(verb_help(Verb::kRun, "muster run", detail, {80, true}), HasSubstr("\033[1mExamples:\033[0m"));
}

TEST(Help, GeneralHelpNamesEveryVerb) {
  std::string text = general_help({80, false});
  for (const VerbInfo& verb : verbs()) EXPECT_THAT(text, HasSubstr("  " + std::string(verb.name) + " "));
}

TEST(Help, DefaultsAreThoseOfTheVerb) {
  EXPECT_THAT(option_text(option(Opt::kNprocPerNode), Verb::kRun), HasSubstr("Default: one per GPU"));
  EXPECT_THAT(option_text(option(Opt::kNprocPerNode), Verb::kTorchrun), HasSubstr("Default: 1. [PET_NPROC_PER_NODE]"));
}

TEST(Verbs, NearestIsNamedOnlyWhenItIsNear) {
  EXPECT_EQ(nearest_verb("rnu")->name, "run");
  EXPECT_EQ(nearest_verb("torchrn")->name, "torchrun");
  EXPECT_EQ(nearest_verb("frobnicate"), nullptr);
}

TEST(ManPage, HasEveryVerbAndOption) {
  std::string page = man_page();
  EXPECT_TRUE(page.starts_with(".TH MUSTER 1 "));
  for (const VerbInfo& verb : verbs()) EXPECT_THAT(page, HasSubstr(".SS muster " + std::string(verb.name)));
  EXPECT_THAT(page, HasSubstr("\\-\\-nproc\\-per\\-node"));
  EXPECT_THAT(page, HasSubstr("TORCHELASTIC_RUN_ID"));
  EXPECT_THAT(page, Not(HasSubstr("…")));
}

TEST(Completion, EveryShellKnowsEveryOption) {
  for (Shell shell : {Shell::kBash, Shell::kZsh, Shell::kFish}) {
    std::string script = completion_script(shell);
    for (const Option& option : options()) EXPECT_THAT(script, HasSubstr(std::string(option.name)));
  }
  EXPECT_EQ(parse_shell("tcsh"), std::nullopt);
}

TEST(TextLayout, WrapsWordsAndCountsCharactersNotBytes) {
  EXPECT_EQ(wrap("aa bb cc", 2, 7), "  aa bb\n  cc\n");
  EXPECT_EQ(wrap("…… ……", 0, 5), "…… ……\n");
  EXPECT_EQ(wrap("longerthanthat x", 0, 5), "longerthanthat\nx\n");
  EXPECT_EQ(first_sentence("One. Two."), "One");
  EXPECT_EQ(first_sentence("e.g. this"), "e.g") << "so help texts put no such thing into their first sentence";
}

TEST(Help, UsageIsWrappedAsArgparseDoes) {
  std::string usage = argparse_usage(Verb::kTorchrun, "torchrun", 80);
  EXPECT_THAT(usage,
              testing::StartsWith("usage: torchrun [-h] [--nnodes NNODES] [--nproc-per-node NPROC_PER_NODE]\n"
                                  "                [--rdzv-backend RDZV_BACKEND] [--rdzv-endpoint RDZV_ENDPOINT]\n"));
  EXPECT_THAT(usage, HasSubstr("[--start-method {spawn,fork,forkserver}]"));
  EXPECT_THAT(usage, testing::EndsWith("\n                training_script ...\n"));
}

}  // namespace
}  // namespace muster::cli
