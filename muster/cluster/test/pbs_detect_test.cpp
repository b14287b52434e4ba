#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/cluster/adapter.h"
#include "muster/cluster/pbs/time_left.h"

namespace muster::cluster::pbs {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const std::string kData = std::string(MUSTER_TEST_DATA) + "/pbs/";

std::string data(const std::string& name) {
  auto text = read_file(kData + name);
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? *text : "";
}

using Variables = std::map<std::string, std::string>;

// What OpenPBS 23.06.06 set in a lab of real daemons: pbs/record wrote it.
Variables recorded(const std::string& name) {
  Variables variables;
  const std::string text = data(name + ".env");
  for (std::string_view line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

Result<std::optional<Surroundings>> detect_in(const Variables& variables) {
  auto getenv = [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return cluster::detect(getenv, [](const std::string& path) { return read_file(kData + path); });
}

Surroundings found(const Variables& variables) {
  auto here = detect_in(variables);
  EXPECT_TRUE(here.ok()) << (here.ok() ? "" : here.error().text());
  EXPECT_TRUE(here.ok() && here->has_value());
  return here.ok() && *here ? **here : Surroundings{};
}
Surroundings found(const std::string& name) { return found(recorded(name)); }

std::string names(const Surroundings& here) {
  std::vector<std::string> all;
  for (const Host& host : here.nodes) {
    EXPECT_FALSE(host.workers) << "a line of the nodefile is not a worker";
    all.push_back(host.name);
  }
  return join(all, " ");
}

std::string error_in(const Variables& variables) {
  auto here = detect_in(variables);
  EXPECT_FALSE(here.ok());
  return here.ok() ? "" : here.error().text();
}

TEST(PbsDetect, NothingOutsideOfAJob) {
  auto here = detect_in({{"PATH", "/bin"}, {"PBS_O_WORKDIR", "/home/ada"}});
  ASSERT_TRUE(here.ok());
  EXPECT_FALSE(here->has_value());
}

TEST(PbsDetect, TheScript) {
  const Surroundings here = found("script");
  EXPECT_EQ(here.adapter->name(), "pbs");
  EXPECT_EQ(here.role, Role::kHead);
  EXPECT_EQ(here.what, "batch script of PBS job 0.ctl (train) on 2 nodes");
  EXPECT_EQ(here.job_id, "0.ctl");
  EXPECT_EQ(here.job_name, "train");
  EXPECT_EQ(here.step_id, "");
  EXPECT_EQ(names(here), "n1.lab n2.lab");
  EXPECT_EQ(here.allocated, 2);
  EXPECT_EQ(here.node_rank, 0);
  EXPECT_EQ(here.node_name, "n1.lab");
  EXPECT_THAT(here.clues, ::testing::Contains(Clue{"PBS_NODEFILE", "script.nodefile", "8 lines, 2 hosts"}));
  EXPECT_THAT(here.clues, ::testing::Contains(Clue{"PBS_TASKNUM", "1", "the script itself"}));
}

TEST(PbsDetect, AnInteractiveShell) {
  const Surroundings here = found("interactive");
  EXPECT_EQ(here.role, Role::kHead);
  EXPECT_EQ(here.what, "interactive shell of PBS job 7.ctl (STDIN) on 2 nodes");
}

TEST(PbsDetect, AJobOfAnArray) {
  const Surroundings here = found("array");
  EXPECT_EQ(here.role, Role::kHead);
  EXPECT_EQ(here.job_id, "4[3].ctl");
  EXPECT_THAT(here.clues, ::testing::Contains(Clue{"PBS_ARRAY_INDEX", "3", "which of an array's jobs"}));
}

TEST(PbsDetect, EveryKindOfNodefile) {
  EXPECT_EQ(names(found("packed")), "n1.lab");
  EXPECT_EQ(found("packed").what, "batch script of PBS job 1.ctl (packed) on 1 node");
  EXPECT_EQ(names(found("returning")), "n1.lab n2.lab");  // not n1 n2 n1, as `uniq` has it
  EXPECT_EQ(names(found("old_ppn")), "n1.lab n2.lab");
  // pbs_tmrsh wants the names as the nodefile has them.
  EXPECT_EQ(names(found("short_names")), "n1 n2");
}

TEST(PbsDetect, Tasks) {
  const Surroundings first = found("task_first_node");
  EXPECT_EQ(first.role, Role::kTask);
  EXPECT_EQ(first.node_rank, 0);
  EXPECT_EQ(first.step_id, "00000002");
  EXPECT_TRUE(first.nodes.empty());
  EXPECT_EQ(first.what, "a task on node 0 of PBS job 0.ctl (train)");

  const Surroundings second = found("task_second_node");
  EXPECT_EQ(second.role, Role::kTask);
  EXPECT_EQ(second.node_rank, 1);
  EXPECT_EQ(second.step_id, "10000001");
  EXPECT_EQ(second.node_name, "n2.lab");
  EXPECT_EQ(second.what, "a task on node 1 of PBS job 0.ctl (train) on 2 nodes");
  EXPECT_TRUE(found("task_second_node_no_nodefile").nodes.empty());

  Variables elsewhere = recorded("task_second_node");
  elsewhere["PBS_NODEFILE"] = "not-on-this-node";
  EXPECT_TRUE(found(elsewhere).nodes.empty());
}

TEST(PbsDetect, WhatPbsAttachHasAttachedSeesNoJob) {
  auto here = detect_in(recorded("attached"));
  ASSERT_TRUE(here.ok());
  EXPECT_FALSE(here->has_value());
}

TEST(PbsDetect, ANodefileThatIsNotThere) {
  Variables odd = recorded("script");
  odd["PBS_NODEFILE"] = "missing.nodefile";
  EXPECT_THAT(error_in(odd),
              ::testing::AllOf(HasSubstr("this is a PBS job, but its nodefile cannot be read"),
                               HasSubstr("missing.nodefile"), HasSubstr("; start muster outside of a container")));
  odd["PBS_NODEFILE"] = "qstat.txt";
  EXPECT_THAT(error_in(odd), HasSubstr("its nodefile qstat.txt is not as it should be: line 1"));
  odd.erase("PBS_NODEFILE");
  EXPECT_THAT(error_in(odd), HasSubstr("this is a PBS job, but PBS_NODEFILE is not set; start"));
}

TEST(PbsDetect, VariablesThatMakeNoSense) {
  Variables variables = recorded("script");
  variables["PBS_NODENUM"] = "first";
  EXPECT_EQ(error_in(variables), "PBS_NODENUM is \"first\", which is not a number of a node");
  variables["PBS_NODENUM"] = "2";
  EXPECT_THAT(error_in(variables), HasSubstr("PBS_NODENUM is 2, and its nodefile script.nodefile names 2 hosts"));
  variables.erase("PBS_JOBID");
  EXPECT_THAT(error_in(variables), HasSubstr("PBS_JOBID is not"));
}

TEST(PbsTimeLeft, Walltimes) {
  EXPECT_EQ(parse_walltime("00:05:00"), seconds(300));
  EXPECT_EQ(parse_walltime("120:00:01"), seconds(432001));
  EXPECT_EQ(parse_walltime("90:30"), seconds(5430));
  EXPECT_EQ(parse_walltime("300"), seconds(300));
  EXPECT_EQ(parse_walltime("00:00:10.5"), seconds(10));
  for (const char* text : {"", ":", "1:2:3:4", "-1", "1:-1", "x", "1 0", "99999999999999999999", "9999999999:00:00"})
    EXPECT_FALSE(parse_walltime(text)) << text;
}

constexpr time_t kStart = 1794809716;  // Mon Nov 16 06:15:16 2026 UTC, the stime of qstat.txt

TEST(PbsTimeLeft, SinceTheStartWhereThatAgrees) {
  const std::string qstat = data("qstat.txt");  // 1 h, of which 26 s had been used at some time
  auto left = [&](time_t now) { return time_left(qstat, now).value().value(); };
  EXPECT_EQ(left(kStart + 26), seconds(3600 - 26));
  EXPECT_EQ(left(kStart + 125), seconds(3600 - 125));  // newer than what MOM last said
  EXPECT_EQ(left(kStart + 2000), seconds(3600 - 26)) << "it was suspended";
  EXPECT_EQ(left(kStart - 5000), seconds(3600 - 26)) << "another clock";
}

TEST(PbsTimeLeft, WhatIsMissing) {
  EXPECT_EQ(time_left("", 0).value(), std::nullopt);
  EXPECT_EQ(time_left("Job Id: 1.p0\n    job_state = R\n", 0).value(), std::nullopt);
  const std::string limit = "    Resource_List.walltime = 00:10:00\n";
  EXPECT_EQ(time_left(limit, 5).value(), seconds(600));
  EXPECT_EQ(time_left(limit + "    resources_used.walltime = 00:00:30\n", 5).value(), seconds(570));
  EXPECT_EQ(time_left(limit + "    resources_used.walltime = 00:20:30\n", 5).value(), seconds(0));
  EXPECT_EQ(time_left(limit + "    stime = Mon Nov 16 06:15:16 2026\n", kStart + 60).value(), seconds(540));
  EXPECT_EQ(time_left("    Resource_List.walltime = 0\n\t1:00:00\n", 5).value(), seconds(3600)) << "continued";
  auto wrong = time_left("    Resource_List.walltime = soon\n", 5);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "qstat: \"soon\" is not a walltime");
}

}  // namespace
}  // namespace muster::cluster::pbs
