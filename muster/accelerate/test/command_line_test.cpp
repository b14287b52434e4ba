#include "muster/accelerate/command_line.h"

#include <gmock/gmock.h>

#include <set>

#include "muster/accelerate/test/helpers.h"

namespace muster::accelerate::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Table, HasEveryNameOnce) {
  std::set<std::string_view> names, variables;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_EQ(option.rule == Rule::kNone, option.variable.empty()) << option.name;
    EXPECT_TRUE(option.variable.empty() || variables.insert(option.variable).second) << option.variable;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_EQ(option.name.find('-'), std::string_view::npos) << option.name;
  }
}

TEST(CommandLine, TakesDashesAndUnderscores) {
  EXPECT_EQ(parsed({"--num-processes", "4", "train.py"}).settings.integer("num_processes"), 4);
  EXPECT_EQ(parsed({"--num_processes=4", "train.py"}).settings.integer("num_processes"), 4);
  EXPECT_EQ(parsed({"--num_cpu-threads_per-process=4", "t"}).settings.integer("num_cpu_threads_per_process"), 4);
}

TEST(CommandLine, LeavesWhatIsBehindTheScriptToTheScript) {
  CommandLine line = parsed({"--cpu", "train.py", "--num_processes", "", "-", "--"});
  EXPECT_THAT(line.program, ElementsAre("train.py", "--num_processes", "", "-", "--"));
  EXPECT_FALSE(line.settings.given("num_processes"));
}

TEST(CommandLine, ReadsShortFlags) {
  CommandLine line = parsed({"-qm", "-t3", "pkg"});
  EXPECT_TRUE(line.settings.flag("quiet"));
  EXPECT_TRUE(line.settings.flag("module"));
  EXPECT_EQ(line.settings.get("tee"), "3");
  EXPECT_EQ(parsed({"-t", "0:3", "pkg"}).settings.get("tee"), "0:3");
}

TEST(CommandLine, NamesTheNearestFlag) {
  EXPECT_EQ(complaint({"--num_proceses", "2", "t.py"}),
            "unrecognized arguments: --num_proceses; did you mean --num_processes?");
  EXPECT_EQ(complaint({"--num_proc", "2", "t.py"}),
            "unrecognized arguments: --num_proc; did you mean --num_processes?");
  EXPECT_THAT(complaint({"--nproc-per-node=2", "t.py"}), HasSubstr("did you mean --num_processes?"));
  EXPECT_THAT(complaint({"--node_rank=2", "t.py"}), HasSubstr("did you mean --machine_rank?"));
  EXPECT_THAT(complaint({"--use_cpu", "t.py"}), HasSubstr("did you mean --cpu?"));
  EXPECT_THAT(complaint({"--distributed_type=NO", "t.py"}), HasSubstr("unrecognized arguments"));
  EXPECT_THAT(complaint({"-x", "t.py"}), HasSubstr("unrecognized arguments: -x"));
}

TEST(CommandLine, SaysWhatIsWrongWithAValue) {
  EXPECT_EQ(complaint({"--num_processes", "two", "t.py"}), "argument --num_processes: invalid int value: 'two'");
  EXPECT_EQ(complaint({"--monitor_interval", "x", "t.py"}), "argument --monitor_interval: invalid float value: 'x'");
  EXPECT_THAT(complaint({"--mixed_precision", "half", "t.py"}), HasSubstr("choose no, fp16, bf16, fp8"));
  EXPECT_EQ(complaint({"--log_dir", "--cpu", "t.py"}), "argument --log_dir: expected one argument");
  EXPECT_EQ(complaint({"--log_dir"}), "argument --log_dir: expected one argument");
  EXPECT_EQ(complaint({"--cpu=yes", "t.py"}), "argument --cpu: ignored explicit argument 'yes'");
  EXPECT_THAT(complaint({"--fp8_override_linear_precision", "1,0", "t.py"}), HasSubstr("three"));
  EXPECT_THAT(complaint({"--cpu"}), HasSubstr("training_script"));
}

TEST(CommandLine, TakesGpusAsSlurmWritesThem) {
  EXPECT_EQ(parsed({"--num_processes", "v100:2", "t.py"}).settings.integer("num_processes"), 2);
  EXPECT_EQ(parsed({"--num_processes=gpu:v100:1,a100:2", "t.py"}).settings.integer("num_processes"), 3);
}

TEST(CommandLine, AnEmptyNumberCountsAsNotGiven) {
  CommandLine line = parsed({"--machine_rank=", "--num_machines", "", "--max_restarts=", "t.py"});
  EXPECT_FALSE(line.settings.get("machine_rank"));
  EXPECT_FALSE(line.settings.given("num_machines"));
  EXPECT_EQ(line.settings.integer("max_restarts"), 0);
}

TEST(CommandLine, ShowsValuesAsPythonDoes) {
  EXPECT_EQ(parsed({"--gradient_clipping", "1", "t"}).settings.get("gradient_clipping"), "1.0");
  EXPECT_EQ(parsed({"--gradient_clipping", "1e-05", "t"}).settings.get("gradient_clipping"), "1e-05");
  EXPECT_EQ(parsed({"--megatron_lm_no_load_optim", "false", "t"}).settings.get("megatron_lm_no_load_optim"), "True");
  EXPECT_EQ(parsed({"--fp8_pad_inner_dim", "no", "t"}).settings.get("fp8_pad_inner_dim"), "0");
  EXPECT_EQ(parsed({"--zero_stage", "-1", "t"}).settings.get("zero_stage"), "-1");
}

TEST(CommandLine, KeepsMustersOwnOptions) {
  CommandLine line = parsed({"--hosts", "n1,n2", "--dry_run", "--env=A=b", "--cpu", "t.py"});
  EXPECT_THAT(line.own, ElementsAre("--hosts=n1,n2", "--dry-run", "--env=A=b"));
  EXPECT_EQ(complaint({"--hosts"}), "argument --hosts: expected one argument");
}

TEST(CommandLine, HelpEndsIt) { EXPECT_TRUE(parsed({"--help", "--nonsense"}).help); }

// What an agent reads says the same as what the launcher read, the config file included.
TEST(CommandLine, SurvivesTheWayToAnAgent) {
  CommandLine line = configured({"--hosts=n1", "--num_processes=4", "--fsdp_version=2", "t.py", "--x"},
                                "distributed_type: FSDP\n"
                                "use_cpu: true\n"
                                "dynamo_config: {dynamo_backend: INDUCTOR}\n"
                                "fsdp_config: {fsdp_offload_params: false, fsdp_ignored_modules: a.b}\n"
                                "megatron_lm_config: {megatron_lm_no_load_optim: false}\n");
  auto again = Settings::of(line.settings.all());
  ASSERT_TRUE(again) << again.error().text();
  for (const Option& option : options())
    EXPECT_EQ(again->get(option.name), line.settings.get(option.name)) << option.name;
}

}  // namespace
}  // namespace muster::accelerate::test
