#include "muster/cli/argument_parser.h"

#include <gmock/gmock.h>

#include <map>

namespace muster::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Result<Parsed> parse(Verb verb, const Words& words, const Variables& variables = {}) {
  return parse_arguments(verb, words, [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error(Verb verb, const Words& words, const Variables& variables = {}) {
  auto parsed = parse(verb, words, variables);
  return parsed ? "accepted" : parsed.error().text();
}

TEST(ArgumentParser, TakesBothSpellingsAndBothWaysToGiveAValue) {
  for (const Words& words : {Words{"--nproc-per-node", "4", "a.py"}, Words{"--nproc_per_node=4", "a.py"},
                             Words{"--nproc-per=4", "a.py"}, Words{"--nproc_p", "4", "a.py"}}) {
    for (Verb verb : {Verb::kRun, Verb::kTorchrun, Verb::kLaunch}) {
      auto parsed = parse(verb, words);
      ASSERT_TRUE(parsed) << parsed.error().text();
      EXPECT_EQ(parsed->text(Opt::kNprocPerNode), "4");
      EXPECT_EQ(parsed->setting(Opt::kNprocPerNode).source, Origin::kOption);
      EXPECT_THAT(parsed->words, ElementsAre("a.py"));
    }
  }
}

TEST(ArgumentParser, ReadsShortFlagsAloneBundledAndWithTheirValue) {
  auto parsed = parse(Verb::kRun, {"-mt3", "-r", "0:1", "pkg.mod", "-m"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_TRUE(parsed->flag(Opt::kModule));
  EXPECT_EQ(parsed->text(Opt::kTee), "3");
  EXPECT_EQ(parsed->text(Opt::kRedirects), "0:1");
  EXPECT_THAT(parsed->words, ElementsAre("pkg.mod", "-m"));
}

TEST(ArgumentParser, LeavesEverythingBehindTheProgramAlone) {
  auto parsed = parse(Verb::kRun, {"a.py", "--nproc", "--log", "--bogus", "--help", "--", "x"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_FALSE(parsed->immediate);
  EXPECT_THAT(parsed->words, ElementsAre("a.py", "--nproc", "--log", "--bogus", "--help", "--", "x"));
}

TEST(ArgumentParser, DropsTheFirstDoubleDashBeforeTheProgramOrRightBehindIt) {
  EXPECT_THAT(parse(Verb::kRun, {"--", "a.py", "--", "x"})->words, ElementsAre("a.py", "--", "x"));
  EXPECT_THAT(parse(Verb::kRun, {"a.py", "--", "--x"})->words, ElementsAre("a.py", "--x"));
  EXPECT_THAT(parse(Verb::kRun, {"a.py", "--x", "--"})->words, ElementsAre("a.py", "--x", "--"));
  EXPECT_THAT(parse(Verb::kRun, {"--", "--x"})->words, ElementsAre("--x"));
}

TEST(ArgumentParser, ACommonPrefixOfTwoSpellingsIsAmbiguousForArgparseOnly) {
  EXPECT_EQ(error(Verb::kTorchrun, {"--nproc", "2", "a.py"}),
            "ambiguous option: --nproc could match --nproc-per-node, --nproc_per_node");
  EXPECT_EQ(parse(Verb::kRun, {"--nproc", "2", "a.py"})->text(Opt::kNprocPerNode), "2");
  EXPECT_EQ(error(Verb::kRun, {"--rdzv", "2", "a.py"}),
            "option '--rdzv' is ambiguous; it could be --rdzv-backend, --rdzv-endpoint, --rdzv-id, --rdzv-conf");
}

TEST(ArgumentParser, NewerOptionsDoNotDisturbOlderAbbreviations) {
  EXPECT_EQ(parse(Verb::kTorchrun, {"--log-", "d", "a.py"})->text(Opt::kLogDir), "d");
  EXPECT_EQ(parse(Verb::kTorchrun, {"--log-line-prefix-template=x", "a.py"})->text(Opt::kLogLinePrefixTemplate), "x");
  EXPECT_EQ(error(Verb::kTorchrun, {"--log-line=x", "a.py"}), "unrecognized arguments: --log-line=x");
}

// The option that a command line names, if it is understood.
std::optional<Opt> named(Verb verb, const Words& words) {
  auto parsed = parse(verb, words);
  if (!parsed) return std::nullopt;
  if (parsed->immediate) return parsed->immediate;
  for (const Option& option : options())
    if (option.in(verb) && parsed->setting(option.id).source == Origin::kOption) return option.id;
  return std::nullopt;
}

TEST(ArgumentParser, EveryAbbreviationThatTorchrunTakesMeansTheSameInRun) {
  for (const Option& option : options()) {
    if (option.exact || !option.in(Verb::kTorchrun) || !option.in(Verb::kRun)) continue;
    for (const std::string& spelling : spellings(option)) {
      for (size_t size = 3; size <= spelling.size() && spelling.starts_with("--"); ++size) {
        Words words{spelling.substr(0, size), "a.py"};
        const std::string value(option.choices.substr(0, option.choices.find('|')));
        if (option.takes_value()) words.insert(words.begin() + 1, value.empty() ? "1" : value);
        const auto there = named(Verb::kTorchrun, words);
        EXPECT_TRUE(!there || named(Verb::kRun, words) == there) << words[0];
      }
    }
  }
}

TEST(ArgumentParser, NewerOptionsAreCutShortWhereNoOtherIsMeant) {
  EXPECT_EQ(named(Verb::kRun, {"--rep", "f", "a.py"}), Opt::kReport);
  EXPECT_EQ(named(Verb::kRun, {"--local-n=2", "a.py"}), Opt::kLocalNodes);
  EXPECT_EQ(named(Verb::kRun, {"--local_n=2", "a.py"}), Opt::kLocalNodes);
  EXPECT_EQ(named(Verb::kRun, {"--log-", "d", "a.py"}), Opt::kLogDir);
  EXPECT_EQ(error(Verb::kRun, {"--host", "n1", "a.py"}),
            "option '--host' is ambiguous; it could be --hosts, --hostfile");
  EXPECT_EQ(error(Verb::kTorchrun, {"--local-n=2", "a.py"}), "unrecognized arguments: --local-n=2");
  EXPECT_EQ(error(Verb::kRun, {"--port", "1", "a.py"}), "unknown option '--port'; write --master-port PORT");
}

TEST(ArgumentParser, NamesTheNearestOption) {
  EXPECT_EQ(error(Verb::kRun, {"--nporc-per-node", "2", "a.py"}),
            "unknown option '--nporc-per-node'; did you mean '--nproc-per-node'?");
  EXPECT_EQ(error(Verb::kRun, {"--max_restart_s=3", "a.py"}),
            "unknown option '--max_restart_s'; did you mean '--max-restarts'?");
  EXPECT_EQ(error(Verb::kRun, {"--nprocs", "2", "a.py"}),
            "unknown option '--nprocs'; did you mean '--nproc-per-node'?");
  EXPECT_EQ(error(Verb::kRun, {"--restarts=3", "a.py"}), "unknown option '--restarts'; did you mean '--max-restarts'?");
  EXPECT_EQ(error(Verb::kRun, {"--max_retries", "3", "a.py"}),
            "unknown option '--max_retries'; write --max-restarts N");
  EXPECT_EQ(error(Verb::kRun, {"--nporc", "2", "a.py"}), "unknown option '--nporc'; did you mean '--nproc-per-node'?");
  EXPECT_EQ(error(Verb::kRun, {"--frobnicate", "a"}),
            "unknown option '--frobnicate'; 'muster run --help-all' lists all options");
  EXPECT_EQ(error(Verb::kRun, {"--epochs", "3", "train.py"}),
            "unknown option '--epochs'; if it is an option of train.py, write it after train.py; 'muster run "
            "--help-all' lists all options");
}

TEST(ArgumentParser, AnOptionThatTookTheScriptIsNamed) {
  const std::string sentence =
      "nothing to run: option '--log-dir' took train.py as its value; write muster run --log-dir DIR train.py";
  EXPECT_EQ(error(Verb::kRun, {"--log-dir", "train.py"}), sentence);
  EXPECT_EQ(error(Verb::kRun, {"--nproc-per-node", "2", "--log-dir", "train.py", "--lr", "3"}), sentence);
  EXPECT_EQ(error(Verb::kRun, {"--prologue", "setup.py", "--frobnicate", "1", "train.py"}),
            "unknown option '--frobnicate'; if it is an option of train.py, write it after train.py; 'muster run "
            "--help-all' lists all options");
  EXPECT_EQ(error(Verb::kRun, {"--prologue", "setup.py", "--nporc-per-node", "2", "train.py"}),
            "unknown option '--nporc-per-node'; did you mean '--nproc-per-node'?");
  EXPECT_EQ(error(Verb::kRun, {"--log-dir=train.py"}), "nothing to run; write muster run PROGRAM [ARGUMENT…]");
  EXPECT_EQ(error(Verb::kTorchrun, {"--log-dir", "train.py"}),
            "the following arguments are required: training_script, training_script_args");
}

TEST(ArgumentParser, SaysWhatIsMissing) {
  EXPECT_EQ(error(Verb::kRun, {"--nnodes"}), "option '--nnodes' needs a value; write --nnodes N|MIN:MAX");
  EXPECT_EQ(error(Verb::kRun, {"--nnodes", "--standalone", "a.py"}),
            "option '--nnodes' needs a value; write --nnodes N|MIN:MAX");
  EXPECT_EQ(error(Verb::kRun, {"--standalone=1", "a.py"}),
            "option '--standalone' does not take a value; leave out '1'");
  EXPECT_EQ(error(Verb::kRun, {}), "nothing to run; write muster run PROGRAM [ARGUMENT…]");
  EXPECT_EQ(error(Verb::kRun, {"--max-restarts", "x", "a.py"}),
            "--max-restarts: 'x' is not a whole number; write --max-restarts N");
  EXPECT_EQ(error(Verb::kRun, {"--monitor-interval", "x", "a.py"}),
            "--monitor-interval: 'x' is not a number; write --monitor-interval SECONDS");
  EXPECT_EQ(error(Verb::kRun, {"--label", "x", "a.py"}), "--label: 'x' is not supported; choose none, rank, host:rank");
}

TEST(ArgumentParser, SpeaksAsArgparseDoesForTorchrun) {
  EXPECT_EQ(error(Verb::kTorchrun, {}), "the following arguments are required: training_script, training_script_args");
  EXPECT_EQ(error(Verb::kTorchrun, {"--bogus", "a.py"}), "unrecognized arguments: --bogus");
  EXPECT_EQ(error(Verb::kTorchrun, {"--start-method", "x", "a.py"}),
            "argument --start-method/--start_method: invalid choice: 'x' (choose from 'spawn', 'fork', 'forkserver')");
  EXPECT_EQ(error(Verb::kTorchrun, {"-m=1", "a.py"}), "argument -m/--module: ignored explicit argument '1'");
  EXPECT_EQ(error(Verb::kTorchrun, {"a.py", "--log"}).substr(0, 33), "ambiguous option: --log could mat");
}

TEST(ArgumentParser, TakesDefaultsFromTheEnvironment) {
  auto parsed = parse(Verb::kRun, {"--nnodes", "1", "a.py"},
                      {{"PET_NNODES", "7"},
                       {"PET_MAX_RESTARTS", " 3 "},
                       {"PET_STANDALONE", "1"},
                       {"PET_MODULE", "0"},
                       {"PET_NUMA_BINDING", "x"},
                       {"PET_DUPLICATE_STDOUT_FILTERS", "a,,b,c"}});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(parsed->text(Opt::kNnodes), "1");
  EXPECT_EQ(parsed->text(Opt::kMaxRestarts), "3");
  EXPECT_EQ(parsed->setting(Opt::kMaxRestarts).source, Origin::kVariable);
  EXPECT_TRUE(parsed->flag(Opt::kStandalone));
  EXPECT_FALSE(parsed->flag(Opt::kModule));
  EXPECT_FALSE(parsed->has(Opt::kNumaBinding));
  EXPECT_THAT(parsed->list(Opt::kDuplicateStdoutFilters), ElementsAre("a,b", "c"));
}

TEST(ArgumentParser, RefusesMalformedVariables) {
  EXPECT_EQ(error(Verb::kRun, {"a.py"}, {{"PET_STANDALONE", "yes"}}),
            "PET_STANDALONE='yes' is not a number; set it to 0 or 1, or unset it");
  EXPECT_EQ(error(Verb::kRun, {"a.py"}, {{"PET_MASTER_PORT", "x"}}),
            "PET_MASTER_PORT: 'x' is not a whole number; set it to a whole number, or unset it");
  EXPECT_EQ(error(Verb::kRun, {"a.py"}, {{"PET_START_METHOD", "x"}}),
            "PET_START_METHOD: 'x' is not supported; choose spawn, fork, forkserver");
  EXPECT_EQ(error(Verb::kTorchrun, {"a.py"}, {{"PET_MASTER_PORT", "x"}}),
            "argument --master-port/--master_port: invalid int value: 'x'");
}

TEST(ArgumentParser, HelpEndsTheReading) {
  auto parsed = parse(Verb::kRun, {"--nnodes", "1", "--help", "--bogus"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(parsed->immediate, Opt::kHelp);
}

TEST(ArgumentParser, VerbsWithoutAProgramCountTheirWords) {
  EXPECT_THAT(parse(Verb::kCompletion, {"bash"})->words, ElementsAre("bash"));
  EXPECT_EQ(error(Verb::kCompletion, {}),
            "'muster completion' needs an argument; write muster completion bash|zsh|fish");
  EXPECT_EQ(error(Verb::kCompletion, {"tcsh"}), "'tcsh' is not supported; choose bash|zsh|fish");
  EXPECT_EQ(error(Verb::kEnv, {"x"}), "unexpected argument 'x'; see muster env --help");
  EXPECT_TRUE(parse(Verb::kEnv, {"--json"})->flag(Opt::kJson));
  EXPECT_THAT(parse(Verb::kHelp, {})->words, IsEmpty());
}

TEST(ArgumentParser, TorchrunKnowsNoneOfOurOwnOptions) {
  EXPECT_EQ(error(Verb::kTorchrun, {"--dry-run", "a.py"}), "unrecognized arguments: --dry-run");
  EXPECT_EQ(error(Verb::kRun, {"--use_env", "a.py"}),
            "unknown option '--use_env'; leave it out: workers get LOCAL_RANK and no --local-rank argument");
  EXPECT_TRUE(parse(Verb::kLaunch, {"--use_env", "a.py"})->flag(Opt::kUseEnv));
}

}  // namespace
}  // namespace muster::cli
