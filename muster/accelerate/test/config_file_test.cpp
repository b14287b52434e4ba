#include "muster/accelerate/config_file.h"

#include <gmock/gmock.h>

#include <map>

#include "muster/accelerate/test/helpers.h"

namespace muster::accelerate::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string read(const std::string& scalar) {
  auto value = parse_config("key: " + scalar + "\n", "c.yaml");
  if (!value) return value.error().text();
  const Value& read = value->entries.at(0).value;
  const std::map<Value::Kind, std::string> kinds = {{Value::Kind::kNone, "none"},     {Value::Kind::kBool, "bool"},
                                                    {Value::Kind::kNumber, "number"}, {Value::Kind::kText, "text"},
                                                    {Value::Kind::kList, "list"},     {Value::Kind::kMap, "map"}};
  return kinds.at(read.kind) + " " + read.text;
}

// By PyYAML's rules, which are YAML 1.1's.
TEST(Yaml, ReadsScalarsAsPythonDoes) {
  EXPECT_EQ(read("NO"), "bool False");
  EXPECT_EQ(read("yes"), "bool True");
  EXPECT_EQ(read("'NO'"), "text NO");
  EXPECT_EQ(read("\"1\""), "text 1");
  EXPECT_EQ(read("oN"), "text oN");
  EXPECT_EQ(read("~"), "none ");
  EXPECT_EQ(read(""), "none ");
  EXPECT_EQ(read("Null"), "none ");
  EXPECT_EQ(read("1_000"), "number 1000");
  EXPECT_EQ(read("0x1F"), "number 31");
  EXPECT_EQ(read("010"), "number 8");
  EXPECT_EQ(read("-3"), "number -3");
  EXPECT_EQ(read("1.0"), "number 1.0");
  EXPECT_EQ(read("1.5e+3"), "number 1500.0");
  EXPECT_EQ(read("1e3"), "text 1e3");
  EXPECT_EQ(read(".inf"), "number inf");
  EXPECT_EQ(read("0,1"), "text 0,1");
  EXPECT_EQ(read("10.0.0.1"), "text 10.0.0.1");
  EXPECT_EQ(read("[a, 1, true]"), "list ['a', 1, True]");
}

TEST(Yaml, ReadsJsonByItsName) {
  auto value =
      parse_config(R"({"distributed_type": "NO", "num_processes": 2, "use_cpu": true, "x": null, "y": 0.5})", "c.json");
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(value->entries.size(), 5U);
  EXPECT_THAT(config_refusal("{\"a\": ", "c.json"), HasSubstr("'c.json' cannot be read"));
}

TEST(Yaml, RefusesWhatIsNoConfig) {
  EXPECT_THAT(config_refusal("- a\n- b\n"), HasSubstr("no keys"));
  EXPECT_THAT(config_refusal(""), HasSubstr("no keys"));
  EXPECT_THAT(config_refusal("a: [1\n"), HasSubstr("cannot be read"));
  EXPECT_THAT(config_refusal("a: *b\n"), HasSubstr("cannot be read"));
  EXPECT_THAT(config_refusal("{a: b}: c\n"), HasSubstr("cannot be read"));
  EXPECT_THAT(config_refusal(std::string(kMostConfigBytes + 1, ' ')), HasSubstr("256 KiB"));
}

TEST(Yaml, IsNotBlownUpByAliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    std::string line = "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int n = 0; n < 9; ++n) line += ", " + before;
    bomb += line + "]\n";
  }
  EXPECT_THAT(config_refusal(bomb), HasSubstr("too large"));
  EXPECT_THAT(config_refusal("a: " + std::string(100000, '[')), HasSubstr("cannot be read"));
}

TEST(Place, FollowsTheVariables) {
  std::map<std::string, std::string> variables = {{"HOME", "/home/u"}};
  auto getenv = [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(default_config_file(getenv), "/home/u/.cache/huggingface/accelerate/default_config.yaml");
  variables["XDG_CACHE_HOME"] = "/cache";
  EXPECT_EQ(default_config_file(getenv), "/cache/huggingface/accelerate/default_config.yaml");
  variables["HF_HOME"] = "~/hf";
  EXPECT_EQ(default_config_file(getenv), "/home/u/hf/accelerate/default_config.yaml");
}

TEST(Config, TheCommandLineWins) {
  const std::string yaml = "distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: fp16\nmachine_rank: 3\n";
  CommandLine line = configured({"--num_processes=2", "t.py"}, yaml);
  EXPECT_EQ(line.settings.integer("num_processes"), 2);
  EXPECT_EQ(line.settings.get("mixed_precision"), "fp16");
  EXPECT_EQ(line.settings.integer("machine_rank"), 3);
  EXPECT_TRUE(line.settings.flag("multi_gpu"));
  EXPECT_EQ(configured({"--mixed_precision=no", "t"}, yaml).settings.get("mixed_precision"), "no");
}

TEST(Config, TakesGpusAsSlurmWritesThem) {
  for (const char* number : {"v100:4", "'v100:4'", "gpu:v100:1,a100:3", "3090:4"}) {
    const std::string yaml = std::string("distributed_type: MULTI_GPU\nnum_processes: ") + number + "\n";
    EXPECT_EQ(option(configured_launch({"t"}, yaml, with_gpus(4)), "nproc-per-node"), "4") << number;
  }
  EXPECT_EQ(configured({"t"}, "distributed_type: MULTI_GPU\nmpirun_config: {num_processes: v100:2}\n")
                .settings.integer("num_processes"),
            2);
  // As a launcher hands it to its agents.
  const CommandLine line = configured({"t"}, "distributed_type: MULTI_GPU\nnum_processes: v100:4\n");
  auto agent = Settings::of(line.settings.all());
  ASSERT_TRUE(agent) << agent.error().text();
  EXPECT_EQ(agent->integer("num_processes"), 4);
  EXPECT_THAT(config_refusal("distributed_type: 'NO'\nnum_machines: v100:2\n"), HasSubstr("'v100:2' is not a number"));
}

TEST(Config, EntriesOfAnyMapAreOptions) {
  CommandLine line = configured({"--fsdp_offload_params=true", "t"},
                                "distributed_type: FSDP\n"
                                "num_processes: 2\n"
                                "mpirun_config: {max_restarts: 3}\n"
                                "fsdp_config: {offload_params: false, fsdp_version: 2, unknown: 1}\n"
                                "dynamo_config: {backend: INDUCTOR}\n"
                                "fp8_config: {override_linear_precision: [true, false, false]}\n");
  EXPECT_EQ(line.settings.integer("max_restarts"), 3);
  EXPECT_EQ(line.settings.get("fsdp_offload_params"), "true");
  EXPECT_EQ(line.settings.get("fsdp_version"), "2");
  EXPECT_EQ(line.settings.get("dynamo_backend"), "INDUCTOR");
  EXPECT_EQ(line.settings.get("fp8_override_linear_precision"), "True,False,False");
}

TEST(Config, OldKeysAreUnderstood) {
  CommandLine line = configured({"t"}, "distributed_type: 'NO'\nfp16: true\ndynamo_backend: EAGER\n");
  EXPECT_EQ(line.settings.get("mixed_precision"), "fp16");
  EXPECT_EQ(line.settings.get("dynamo_backend"), "EAGER");
}

TEST(Config, ForgivesWhatYamlMakesOfNo) {
  CommandLine line = configured({"t"}, "distributed_type: NO\nmixed_precision: no\ngpu_ids: 1\n");
  EXPECT_EQ(line.settings.get("distributed_type"), "NO");
  EXPECT_EQ(line.settings.integer("num_processes"), 1);
  EXPECT_EQ(line.settings.get("mixed_precision"), "no");
  EXPECT_EQ(line.settings.get("gpu_ids"), "1");
}

TEST(Config, FollowsWhatAccelerateReadsPast) {
  Words notes;
  CommandLine line = configured(
      {"t"}, "distributed_type: MULTI_GPU\nnum_processes: 2\nrdzv_backend: c10d\nenable_cpu_affinity: true\n", &notes);
  EXPECT_EQ(line.settings.get("rdzv_backend"), "c10d");
  EXPECT_TRUE(line.settings.flag("enable_cpu_affinity"));
  EXPECT_EQ(notes.size(), 2U);
  configured({"t"}, "distributed_type: MULTI_GPU\nnum_processes: 2\nrdzv_backend: static\nenable_cpu_affinity: false\n",
             &notes);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Config, AFlagBeatsTheType) {
  CommandLine line = configured({"--multi_gpu", "t"}, "distributed_type: FSDP\nnum_processes: 2\n");
  EXPECT_FALSE(line.settings.flag("use_fsdp"));
  EXPECT_TRUE(line.settings.flag("multi_gpu"));
}

TEST(Config, SaysWhatIsWrong) {
  EXPECT_THAT(config_refusal("num_processes: 2\n"), HasSubstr("no distributed_type"));
  EXPECT_THAT(config_refusal("distributed_type: MANY\n"), HasSubstr("no distributed_type 'MANY'"));
  EXPECT_THAT(config_refusal("distributed_type: MULTI_GPU\n"), HasSubstr("give --num_processes"));
  EXPECT_THAT(config_refusal("distributed_type: 'NO'\nnum_process: 1\n"), HasSubstr("did you mean num_processes?"));
  EXPECT_THAT(config_refusal("distributed_type: 'NO'\nfoo: 1\n"), HasSubstr("no key 'foo'; remove it"));
  EXPECT_THAT(config_refusal("zoo: 1\ndistributed_type: 'NO'\nfoo: 1\n"),
              HasSubstr("unknown keys, which accelerate 1.15 does not have: 'foo', 'zoo'; remove them"));
  EXPECT_THAT(config_refusal("foo: 1\nnum_proceses: 1\n"), HasSubstr("'num_proceses'; did you mean num_processes?"));
  EXPECT_THAT(config_refusal("distributed_type: 'NO'\nfsdp_config: 1\n"), HasSubstr("fsdp_config is not a map"));
  EXPECT_THAT(config_refusal("distributed_type: 'NO'\nnum_processes: many\n"), HasSubstr("'many' is not a number"));
  EXPECT_THAT(config_refusal("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_min_num_params: x}\n"),
              HasSubstr("not a number"));
  EXPECT_THAT(config_refusal("distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: '0'\n"),
              HasSubstr("names one GPU"));
  EXPECT_THAT(config_refusal("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\n"),
              HasSubstr("AMAZON_SAGEMAKER"));
}

}  // namespace
}  // namespace muster::accelerate::test
