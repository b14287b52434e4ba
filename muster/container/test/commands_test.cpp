// The exact command lines of every runtime, as files in golden/: a difference there is a difference for every user. Run
// with MUSTER_GOLDEN=write to write them anew, then read the diff.
#include "muster/container/commands.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

namespace muster::container {
namespace {

const Environment kNode = {{"PATH", "/opt/site/bin:/usr/bin"},
                           {"HOME", "/home/ada"},
                           {"LD_LIBRARY_PATH", "/opt/site/lib"},
                           {"SLURM_JOB_ID", "7"},
                           {"TMPDIR", "/scratch/7"},
                           {"CONDA_PREFIX", "/home/ada/conda"},
                           {"LANG", "C.UTF-8"},
                           {"NOTE", "two\nlines"},
                           {"OMP_NUM_THREADS", "4"},
                           {"SECRET", "hush"},
                           {"BASH_FUNC_x%%", "() { :; }"}};

std::string kind_program(Kind kind) {
  switch (kind) {
    case Kind::kCharliecloud:
      return "/usr/bin/ch-run";
    default:
      return "/usr/bin/" + std::string(name_of(kind));
  }
}

Plan plain(Kind kind) {
  Plan plan;
  plan.spec = {.kind = kind,
               .program = kind_program(kind),
               .image = "/images/torch.sqsh",
               .mounts = {{"/home/ada/project", "/home/ada/project", false}, {"/scratch/7", "/scratch/7", false}},
               .directory = "/home/ada/project"};
  plan.node = {.uid = 1000,
               .gid = 100,
               .user = "ada",
               .host = "n1",
               .storage = "/var/tmp/muster-1000/" + std::string(name_of(kind))};
  plan.place = {Place::Form::kFile, plan.spec.image};
  plan.label = "a1b2c3";
  if (kind == Kind::kPodman) {
    plan.spec.image = plan.place.text = "docker.io/pytorch/pytorch:latest";
    plan.place.form = Place::Form::kName;
  }
  if (kind == Kind::kCharliecloud) {
    plan.spec.image = plan.place.text = "/images/torch";
    plan.place.form = Place::Form::kDirectory;
  }
  return plan;
}

Plan named(Kind kind) {
  Plan plan = plain(kind);
  plan.spec.name = "my-torch";
  plan.place = location(plan).place;
  if (kind == Kind::kPodman) {
    plan.place.text = "/storage/merged";
    plan.image_environment = {{"PATH", "/opt/conda/bin:/bin"}};
  }
  return plan;
}

// Everything that can be asked for, where the runtime has it.
Plan everything(Kind kind) {
  Plan plan = named(kind);
  plan.spec.root = plan.spec.writable = true;
  plan.spec.mounts.push_back({"/data sets", "/mnt", kind != Kind::kCharliecloud});
  plan.spec.directory = "/workspace";
  plan.spec.options = {"--an-option=of its own"};
  plan.image_variables = {"LANG", "RANK", "OMP_NUM_THREADS"};
  plan.given_variables = {"SECRET", "LD_LIBRARY_PATH"};
  plan.has_environment_file = true;
  plan.node.gpus = Gpus::kNvidia;
  plan.node.cdi = true;
  return plan;
}

Worker worker() {
  Worker worker{.argv = {"python3", "-u", "train.py", "--name", "it's"}, .environment = kNode, .from_node = kNode};
  worker.environment.add("RANK", "3");
  worker.environment.add("MUSTER_WORKER", "j.0.3");
  return worker;
}

// A word a line, so that a difference is a line of a diff.
std::string lines(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format("{}{}\n", text.empty() ? "" : "    ", shell_quote(word));
  return text;
}

std::string section(const std::string& title, const Words& words) {
  return words.empty() ? "" : fmt::format("# {}\n{}", title, lines(words));
}

// What it is executed with beside the worker's environment, and without.
std::string environment_text(const Environment& given, const Environment& used) {
  Words text;
  auto has = [](const Environment& all, const auto& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const auto& variable : given)
    if (!has(used, variable)) text.push_back("- " + variable.first);
  for (const auto& variable : used)
    if (!has(given, variable)) text.push_back(fmt::format("+ {}={}", variable.first, variable.second));
  std::sort(text.begin(), text.end());
  return text.empty() ? "" : fmt::format("# its environment, beside the worker's\n{}\n", join(text, "\n"));
}

std::string whole_text(const Plan& plan) {
  std::string text;
  if (!plan.spec.name.empty()) {
    text += section("where containers are kept is said by", storage_question(plan));
    const Existence exists = existence(plan);
    text += exists.path.empty() ? section("it exists if this succeeds", exists.command)
                                : fmt::format("# it exists if this does\n{}\n", exists.path);
    Plan before = plan;
    if (before.place.text != before.spec.image) before.place = plain(plan.spec.kind).place;  // made of the image
    for (const Words& step : creation(before)) text += section("made by", step);
    text += section("named by", naming(before));
    text += section("removed, if it was not finished, by", removal(before, making_name(before)));
    text += section("found by", location(plan).command);
    text += section("its variables by", location(plan).variables);
  } else {
    text += section("the image is here if this succeeds", fetching(plan).known);
    text += section("fetched by", fetching(plan).command);
  }
  const CommandLine probe = probe_command(plan, kNode, "");
  text += section("looked into by", probe.argv);
  const Worker one = worker();
  const CommandLine line = worker_command(plan, one);
  text += section("a worker", line.argv) + environment_text(one.environment, line.environment);
  text += section("what is left is listed by", list_leftovers(plan));
  text += section("and removed by", remove_leftovers(plan, {"1234", "5678"}));
  text += section("given back by", release(plan));
  return text;
}

std::string golden_path(const std::string& name) { return fmt::format("{}/{}.txt", GOLDEN_DIRECTORY, name); }

struct Case {
  std::string name;
  Plan plan;
};
// GoogleTest looks for this name.
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }  // NOLINT(readability-identifier-naming)

std::vector<Case> cases() {
  std::vector<Case> all;
  for (Kind kind : {Kind::kEnroot, Kind::kApptainer, Kind::kPodman, Kind::kCharliecloud}) {
    const std::string name(name_of(kind));
    all.push_back({name + "-image", plain(kind)});
    all.push_back({name + "-named", named(kind)});
    all.push_back({name + "-everything", everything(kind)});
  }
  Plan plan = plain(Kind::kPodman);
  plan.place = {Place::Form::kDirectory, "/images/torch"};
  plan.node.uid = plan.node.gid = 0;
  plan.node.gpus = Gpus::kAmd;
  all.push_back({"podman-directory-as-root-with-amd", plan});
  plan = plain(Kind::kPodman);
  plan.place = {Place::Form::kFile, "/images/torch.tar"};
  plan.node.gpus = Gpus::kNvidia;
  all.push_back({"podman-archive-with-nvidia-hook", plan});
  plan = plain(Kind::kApptainer);
  plan.spec.program = "/usr/bin/singularity";
  plan.spec.writable = true;
  plan.node.gpus = Gpus::kAmd;
  all.push_back({"singularity-writable-image-with-amd", plan});
  plan = plain(Kind::kCharliecloud);
  plan.spec.image = plan.place.text = "/images/torch.tar.gz";
  plan.place.form = Place::Form::kFile;
  plan.spec.name = "my-torch";
  all.push_back({"charliecloud-archive", plan});
  plan = plain(Kind::kEnroot);
  plan.node.gpus = Gpus::kNvidia;
  all.push_back({"enroot-with-nvidia", plan});
  return all;
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, CommandLines) {
  const std::string path = golden_path(GetParam().name);
  const std::string now = whole_text(GetParam().plan);
  const char* mode = std::getenv("MUSTER_GOLDEN");
  if (mode != nullptr && std::string(mode) == "write") {
    ASSERT_TRUE(write_whole_file(path, now));
  }
  auto golden = read_file(path);
  ASSERT_TRUE(golden) << golden.error().text();
  EXPECT_EQ(now, *golden);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Golden, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Golden, EveryFileBelongsToACase) {
  std::set<std::string> known;
  for (const Case& one : cases()) known.insert(one.name);
  for (const auto& file : std::filesystem::directory_iterator(GOLDEN_DIRECTORY))
    EXPECT_TRUE(known.contains(file.path().stem().string())) << file.path();
}

TEST(Commands, NothingSecretIsAnArgument) {
  for (Kind kind : {Kind::kEnroot, Kind::kApptainer, Kind::kPodman, Kind::kCharliecloud}) {
    for (bool in_image : {false, true}) {
      Plan plan = everything(kind);
      if (in_image) plan.image_variables.insert({"SECRET", "TMPDIR", "NOTE"});
      if (in_image && kind == Kind::kPodman) plan.image_environment.add("API_KEY", "hush");
      Worker one = worker();
      one.environment.add("TMPDIR", "/hush");
      for (const std::string& word : worker_command(plan, one).argv)
        EXPECT_EQ(word.find("hush"), std::string::npos) << name_of(kind) << ": " << word;
    }
  }
}

// What of the worker's own wins over the image: see the golden files for the rest.
TEST(Commands, WhatTheImageSetsGoesByTheRuntimesEnvironment) {
  Plan plan = everything(Kind::kPodman);
  plan.image_environment = {{"PATH", "/opt/conda/bin"}, {"LANG", "C"}, {"RANK", "none"}};
  const CommandLine line = worker_command(plan, worker());
  auto has = [&](const std::string& word) { return std::count(line.argv.begin(), line.argv.end(), word); };
  auto value = [&](const std::string& name) {
    auto found =
        std::find_if(line.environment.begin(), line.environment.end(), [&](auto& v) { return v.first == name; });
    return found == line.environment.end() ? "" : found->second;
  };
  EXPECT_EQ(has("--env=PATH=/opt/conda/bin"), 1);
  EXPECT_EQ(has("--env=LANG"), 1);
  EXPECT_EQ(has("--env=RANK"), 1);
  EXPECT_EQ(value("LANG"), "C");
  EXPECT_EQ(value("RANK"), "3");
  EXPECT_EQ(value("PATH"), "/opt/site/bin:/usr/bin");
}

TEST(Commands, EnrootLeavesQuotesOfAValue) {
  Worker one = worker();
  one.environment.set_all({{"QUOTED", "'it' is \"hush\" "}, {"HALF", "'hush"}, {"ONE", "'"}, {"JSON", "{\"a\": 1}"}});
  const CommandLine line = worker_command(plain(Kind::kEnroot), one);
  auto has = [&](const std::string& word) { return std::count(line.argv.begin(), line.argv.end(), word) == 1; };
  for (const char* name : {"HALF", "ONE", "JSON", "__muster_quoted_QUOTED"}) EXPECT_TRUE(has(name)) << name;
  EXPECT_FALSE(has("QUOTED"));
  EXPECT_TRUE(
      has("export QUOTED=\"${__muster_quoted_QUOTED#x}\" && unset __muster_quoted_QUOTED && cd \"$0\" && "
          "exec \"$@\""));
  const std::pair<std::string, std::string> copy{"__muster_quoted_QUOTED", "x'it' is \"hush\" "};
  EXPECT_EQ(std::count(line.environment.begin(), line.environment.end(), copy), 1);
}

TEST(Commands, AProbeSaysPythonAndVariables) {
  const Probe probe = read_probe(
      "==> a banner of the image\nexport NOT=one\nmuster-python /opt/conda/bin/python\nmuster-variables\n"
      "export LANG='C'\ndeclare -x CUDA_HOME=\"/usr/local/cuda\"\nexport EMPTY\nexport a-b=1\n");
  EXPECT_EQ(probe.python, "/opt/conda/bin/python");
  EXPECT_EQ(probe.variables, (std::set<std::string>{"LANG", "CUDA_HOME", "EMPTY"}));
  EXPECT_EQ(read_probe("muster-python \n").python, "");
}

process::CommandOutput answer(const std::string& output, const std::string& errors) {
  process::CommandOutput said;
  said.output = output;
  said.errors = errors;
  return said;
}

TEST(Commands, EnrootsErrorSaysWhereContainersAre) {
  auto read = [](const std::string& errors) { return read_storage(Kind::kEnroot, answer("", errors)); };
  const std::string question = storage_question(plain(Kind::kEnroot)).back();
  EXPECT_EQ(read("[ERROR] No such file or directory: /home/ada/.local/share/enroot/" + question + "\n"),
            "/home/ada/.local/share/enroot");
  EXPECT_EQ(read("[WARN] a: /b\n[ERROR] No such file or directory: /data of ada: 2/" + question + "\n"),
            "/data of ada: 2");
  EXPECT_EQ(read("[ERROR] Command not found: flock\n"), "");
  EXPECT_EQ(read("[ERROR] No such file or directory: " + question + "\n"), "");
  EXPECT_EQ(read(""), "");
}

TEST(Commands, PodmanSaysWhereContainersAre) {
  EXPECT_EQ(read_storage(Kind::kPodman, answer("/var/lib/containers/storage\n", "")), "/var/lib/containers/storage");
  EXPECT_EQ(read_storage(Kind::kPodman, answer("<no value>\n", "")), "");
}

TEST(Commands, EachNodeMakesAContainerUnderANameOfItsOwn) {
  Plan plan = named(Kind::kEnroot);
  plan.node.host = "n1.site/x y";
  EXPECT_EQ(making_name(plan), ".my-torch.making.n1.site-x-y");
  plan.spec.kind = Kind::kPodman;
  EXPECT_EQ(making_name(plan), "my-torch.making.n1.site-x-y");
}

TEST(Commands, PythonExecIsAskedForFirst) {
  const CommandLine line = probe_command(plain(Kind::kCharliecloud), kNode, "my python");
  EXPECT_NE(line.argv.back().find("$(command -v 'my python' || "), std::string::npos) << line.argv.back();
}

}  // namespace
}  // namespace muster::container
