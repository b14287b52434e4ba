#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "muster/base/strings.h"
#include "muster/cluster/adapter.h"
#include "muster/cluster/slurm/detect.h"
#include "muster/cluster/slurm/time_left.h"

namespace muster::cluster {
namespace {

using Variables = std::map<std::string, std::string>;

// What Slurm 22.05 set in a lab of real daemons: slurm/record wrote it.
Variables recorded(const std::string& name) {
  const std::string path = std::string(MUSTER_TEST_DATA) + "/slurm/" + name + ".env";
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  Variables variables;
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

Result<std::optional<Surroundings>> look(const Variables& variables) {
  return detect(
      [&](const std::string& name) {
        auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      [](const std::string& path) -> Result<std::string> {
        return Error{ErrorKind::kSystem, path + ": not there", {}};
      });
}

Surroundings here(const Variables& variables) {
  auto found = look(variables);
  EXPECT_TRUE(found && *found) << (found ? "nothing was detected" : found.error().text());
  return found && *found ? **std::move(found) : Surroundings{};
}

std::string error(const Variables& variables) {
  auto found = look(variables);
  EXPECT_FALSE(found);
  return found ? "" : found.error().text();
}

std::string names(const std::vector<Host>& hosts) {
  std::vector<std::string> all;
  all.reserve(hosts.size());
  for (const Host& host : hosts) all.push_back(host.name);
  return join(all, " ");
}

std::string meaning(const Surroundings& found, const std::string& name) {
  for (const Clue& clue : found.clues)
    if (clue.name == name) return clue.meaning;
  return "";
}

TEST(SchedulerJob, IsWhatTheCommandsShow) {
  auto job = [](const std::map<std::string, std::string>& variables) {
    return scheduler_job([variables](const std::string& name) {
      auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(job({}), "");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "4713"}}), "4713");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "4713"}, {"SLURM_ARRAY_JOB_ID", "4711"}, {"SLURM_ARRAY_TASK_ID", "2"}}), "4711_2");
  EXPECT_EQ(job({{"PBS_JOBID", "12[3].pbs01.example.org"}}), "12[3]");
}

TEST(SlurmDetect, BatchScript) {
  const Surroundings found = here(recorded("batch-2-nodes"));
  EXPECT_EQ(found.adapter->name(), "slurm");
  EXPECT_EQ(found.role, Role::kHead);
  EXPECT_FALSE(found.in_step);
  EXPECT_EQ(found.submit_host, "") << "here $HOSTNAME is this node";
  EXPECT_EQ(found.what, "batch script of Slurm job 1 (train) on 2 nodes");
  EXPECT_EQ(found.job_id, "1");
  EXPECT_EQ(found.job_name, "train");
  EXPECT_EQ(found.step_id, "");
  EXPECT_EQ(names(found.nodes), "n1 n2");
  EXPECT_EQ(found.allocated, 2);
  EXPECT_EQ(found.node_rank, 0);
  EXPECT_EQ(found.node_name, "n1");
  EXPECT_EQ(found.tasks_here, 1);
  EXPECT_EQ(meaning(found, "SLURM_JOB_NODELIST"), "of the whole allocation");
}

// What was asked for in tasks and GPUs says nothing of how many nodes there are.
TEST(SlurmDetect, BatchScriptsOfOtherShapes) {
  for (const char* name : {"batch-plain", "batch-3-tasks", "batch-uneven-gpus"}) {
    const Surroundings found = here(recorded(name));
    EXPECT_EQ(found.role, Role::kHead) << name;
    EXPECT_EQ(names(found.nodes), "n1 n2") << name;
    EXPECT_EQ(found.tasks_here, 1) << name;
  }
  EXPECT_EQ(names(here(recorded("batch-typed-gpus")).nodes), "n1 n2 n3");
  const Surroundings one = here(recorded("batch-one-node"));
  EXPECT_EQ(one.what, "batch script of Slurm job 4 (wrap) on 1 node");
  EXPECT_EQ(one.node_name, "n1");
}

// salloc's command runs where salloc was typed.
TEST(SlurmDetect, Salloc) {
  const Surroundings found = here(recorded("salloc"));
  EXPECT_EQ(found.role, Role::kHead);
  EXPECT_EQ(found.what, "shell of salloc of Slurm job 7 (interactive) on 2 nodes");
  EXPECT_EQ(names(found.nodes), "n1 n2");
  EXPECT_EQ(found.node_rank, std::nullopt);
  EXPECT_EQ(found.node_name, "");
}

TEST(SlurmDetect, InteractiveStepIsAsABatchScript) {
  const Surroundings found = here(recorded("salloc-interactive-step"));
  EXPECT_EQ(found.role, Role::kHead);
  EXPECT_EQ(found.what, "interactive step of Slurm job 1 (interactive) on 2 nodes");
  EXPECT_EQ(names(found.nodes), "n1 n2");
  EXPECT_EQ(found.node_rank, 0);
  EXPECT_EQ(found.node_name, "n1");
  EXPECT_EQ(found.step_id, "");
  EXPECT_EQ(meaning(found, "SLURM_STEP_ID"), "the interactive step of salloc: as in a batch script");
}

TEST(SlurmDetect, EveryStepFromTheInteractiveOneOnIsSpecial) {
  Variables variables = recorded("step-2-nodes-task-1");
  for (const char* step : {"4294967290", "4294967291", "4294967292", "4294967294"}) {
    variables["SLURM_STEP_ID"] = step;
    EXPECT_EQ(here(variables).role, Role::kHead) << step;
  }
  variables["SLURM_STEP_ID"] = "4294967289";
  EXPECT_EQ(here(variables).role, Role::kTask);
}

TEST(SlurmDetect, StepOnTwoNodes) {
  const Surroundings first = here(recorded("step-2-nodes-task-0"));
  const Surroundings second = here(recorded("step-2-nodes-task-1"));
  EXPECT_EQ(first.role, Role::kTask);
  EXPECT_TRUE(first.in_step);
  EXPECT_EQ(first.submit_host, "ctl");
  EXPECT_EQ(first.what, "step 0 of Slurm job 8 (wrap) on 2 nodes");
  EXPECT_EQ(first.node_rank, 0);
  EXPECT_EQ(second.role, Role::kTask);
  EXPECT_EQ(second.node_rank, 1);
  EXPECT_EQ(second.node_name, "n2");
  EXPECT_EQ(names(second.nodes), "n1 n2");
  EXPECT_EQ(second.step_id, "0");
  EXPECT_FALSE(second.gpus_bound_to_tasks);
  EXPECT_EQ(here(recorded("direct-2-nodes")).role, Role::kTask);
  EXPECT_EQ(here(recorded("direct-2-nodes")).node_rank, 1);
}

TEST(SlurmDetect, StepInsideALargerAllocation) {
  const Surroundings two = here(recorded("step-of-larger"));
  EXPECT_EQ(two.role, Role::kTask);
  EXPECT_EQ(two.what, "step 0 of Slurm job 10 (wrap) on 2 nodes of 3");
  EXPECT_EQ(names(two.nodes), "n2 n3");
  EXPECT_EQ(two.allocated, 3);
  EXPECT_EQ(names(two.allocation), "n1 n2 n3");
  EXPECT_EQ(two.node_rank, 1);
  EXPECT_EQ(two.node_name, "n3");
  const Surroundings one = here(recorded("step-one-of-larger"));
  EXPECT_EQ(one.role, Role::kOneNode);
  EXPECT_EQ(names(one.nodes), "n2");
  EXPECT_EQ(one.allocated, 3);
  EXPECT_EQ(one.node_rank, 0);
  EXPECT_EQ(here(recorded("direct-one-node")).role, Role::kOneNode);
  EXPECT_EQ(here(recorded("direct-one-node")).allocated, 1);
}

TEST(SlurmDetect, TasksOfANode) {
  const Surroundings uneven = here(recorded("step-3-tasks"));  // 2 on n1, 1 on n2; this is the last
  EXPECT_EQ(uneven.node_rank, 1);
  EXPECT_EQ(uneven.tasks_here, 1);
  EXPECT_EQ(uneven.local_task, 0);
  const Surroundings four = here(recorded("step-4-a-node"));
  EXPECT_EQ(four.tasks_here, 4);
  EXPECT_EQ(four.local_task, 1);
  EXPECT_EQ(four.node_rank, 1);
  EXPECT_FALSE(four.gpus_bound_to_tasks);
  EXPECT_EQ(four.what, "step 0 of Slurm job 13 (wrap) on 2 nodes, task 1 of 4 here");
  const Surroundings three = here(recorded("direct-3-a-node"));
  EXPECT_EQ(three.tasks_here, 3);
  EXPECT_FALSE(three.gpus_bound_to_tasks);
}

TEST(SlurmDetect, GpusBoundToTasks) {
  EXPECT_TRUE(here(recorded("step-bound-gpus")).gpus_bound_to_tasks);
  EXPECT_TRUE(here(recorded("step-bound-by-option")).gpus_bound_to_tasks);
  Variables typed = recorded("step-bound-gpus");
  typed["SLURM_GPUS_ON_NODE"] = "v100:4";
  EXPECT_TRUE(here(typed).gpus_bound_to_tasks);
  // One task a node has them all, however they were asked for.
  EXPECT_FALSE(here(recorded("step-gpus-per-task-one")).gpus_bound_to_tasks);
}

TEST(SlurmDetect, CpusBoundToTasks) {
  EXPECT_EQ(here(recorded("step-bound-cpus")).bound_cpus, (std::vector{0, 1}));
  EXPECT_EQ(here(recorded("step-4-a-node")).bound_cpus, std::vector<int>());
}

TEST(SlurmDetect, HeterogeneousJobs) {
  const Surroundings script = here(recorded("batch-het"));
  EXPECT_EQ(script.what, "batch script of Slurm job 1 (wrap) on 3 nodes of 2 components");
  EXPECT_EQ(names(script.nodes), "n1 n2 n3");
  EXPECT_EQ(script.allocated, 3);
  const Surroundings all = here(recorded("step-het"));
  EXPECT_EQ(all.role, Role::kTask);
  EXPECT_EQ(names(all.nodes), "n1 n2 n3");
  EXPECT_EQ(all.node_rank, 2);
  const Surroundings first = here(recorded("step-first-of-het"));
  EXPECT_EQ(first.role, Role::kOneNode);
  EXPECT_EQ(first.components, 2);
  EXPECT_EQ(first.allocated, 3);
  Variables variables = recorded("batch-het");
  variables.erase("SLURM_JOB_NODELIST_HET_GROUP_1");
  EXPECT_NE(error(variables).find("SLURM_JOB_NODELIST_HET_GROUP_1='' is not a list of nodes"), std::string::npos);
  variables["SLURM_HET_SIZE"] = "9999999";
  EXPECT_NE(error(variables).find("SLURM_HET_SIZE='9999999'"), std::string::npos);
}

TEST(SlurmDetect, OldNamesOfVariables) {
  const Surroundings found = here({{"SLURM_JOBID", "5"}, {"SLURM_NODELIST", "a[1-2]"}, {"SLURM_STEPID", "1"}});
  EXPECT_EQ(found.role, Role::kTask);
  EXPECT_EQ(found.step_id, "1");
  EXPECT_EQ(names(found.nodes), "a1 a2");
  EXPECT_EQ(found.node_name, "a1");
}

TEST(SlurmDetect, Terminal) {
  Variables variables = recorded("step-2-nodes-task-0");
  EXPECT_FALSE(here(variables).terminal);
  variables["SLURM_PTY_PORT"] = "40000";
  EXPECT_TRUE(here(variables).terminal);
}

TEST(SlurmDetect, WhatMakesNoSenseIsSaid) {
  EXPECT_EQ(error({{"SLURM_JOB_ID", "5"}}),
            "SLURM_JOB_ID=5 is set and no SLURM_JOB_NODELIST; pass all of SLURM_* on, name the nodes with --hosts, or "
            "stay on this one with --mode local");
  Variables variables = recorded("step-2-nodes-task-1");
  variables["SLURM_JOB_NODELIST"] = "n[1-";
  EXPECT_NE(error(variables).find("this is a Slurm job, but SLURM_JOB_NODELIST='n[1-' is not a list of nodes"),
            std::string::npos);
  const std::pair<const char*, const char*> bad[] = {
      {"SLURM_STEP_ID", "x"},        {"SLURM_NODEID", "2"},  {"SLURM_NODEID", "-1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"},
      {"SLURM_STEP_NODELIST", "n["}, {"SLURM_LOCALID", "1"}, {"SLURM_LOCALID", "z"}};
  for (const auto& [name, value] : bad) {
    variables = recorded("step-2-nodes-task-1");
    variables[name] = value;
    EXPECT_NE(error(variables).find(fmt::format("{}='{}'", name, value)), std::string::npos) << error(variables);
  }
}

TEST(SlurmDetect, TasksPerNode) {
  auto tasks = [](std::string_view text, size_t index) { return slurm::tasks_of_node(text, index); };
  EXPECT_EQ(*tasks("4", 0), 4);
  EXPECT_EQ(*tasks("2(x2),1", 0), 2);
  EXPECT_EQ(*tasks("2(x2),1", 1), 2);
  EXPECT_EQ(*tasks("2(x2),1", 2), 1);
  EXPECT_FALSE(tasks("2(x2),1", 3));
  EXPECT_EQ(*tasks("1(x2147483647),7(x2147483647)", 4294967293), 7);
  for (const char* bad :
       {"", "x", "0", "-1", "1(x", "1(x2", "1(x0)", "1(x-1)", "(x2)", "1(x2)3", "1,,2", "99999999999"})
    EXPECT_FALSE(tasks(bad, 1)) << bad;
}

TEST(SlurmTimeLeft, Forms) {
  auto seconds = [](std::string_view text) {
    auto left = slurm::parse_time_left(fmt::format("12 {}", text), "12");
    return left && *left ? std::chrono::duration_cast<std::chrono::seconds>(**left).count() : -1;
  };
  EXPECT_EQ(seconds("1-02:03:04\n"), 93784);
  EXPECT_EQ(seconds("2:03:04\n"), 7384);
  EXPECT_EQ(seconds("59:57"), 3597);
  EXPECT_EQ(seconds("0:00"), 0);
  ASSERT_TRUE(slurm::parse_time_left("12 UNLIMITED\n", "12"));
  EXPECT_EQ(*slurm::parse_time_left("12 UNLIMITED\n", "12"), std::nullopt);
  for (const char* unknown : {"INVALID", "NOT_SET", "", "5", "1-", "-1:00", "1:2:3:4", "1:x", "99999999999999-0:00"})
    EXPECT_FALSE(slurm::parse_time_left(fmt::format("12 {}", unknown), "12")) << unknown;
}

TEST(SlurmTimeLeft, OfItsOwnComponent) {
  constexpr std::string_view kBoth = "12 1:00:00\n13 2:00:00\n";
  EXPECT_EQ(*slurm::parse_time_left(kBoth, "12"), std::chrono::hours(1));
  EXPECT_EQ(*slurm::parse_time_left(kBoth, "13"), std::chrono::hours(2));
  auto none = slurm::parse_time_left(kBoth, "1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().text(), "squeue says nothing of job 1");
}

TEST(PresetDetect, TorchrunsOwnVariables) {
  const Surroundings found = here({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "head"}});
  EXPECT_EQ(found.adapter->name(), "preset");
  EXPECT_EQ(found.role, Role::kPreset);
  EXPECT_EQ(meaning(found, "PET_NODE_RANK"), "as --node-rank");
  EXPECT_EQ(found.world_nodes, std::nullopt);  // the options have it
}

TEST(PresetDetect, Kubernetes) {
  const Surroundings found =
      here({{"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}, {"WORLD_SIZE", "3"}, {"RANK", "2"}});
  EXPECT_EQ(found.role, Role::kPreset);
  EXPECT_EQ(found.what, "node 2 of 3 that meet at job-master-0, preset in the environment");
  EXPECT_EQ(found.master_addr, "job-master-0");
  EXPECT_EQ(found.master_port, 23456);
  EXPECT_EQ(found.world_nodes, 3);
  EXPECT_EQ(found.node_rank, 2);
}

TEST(PresetDetect, NodesRatherThanProcesses) {
  const Surroundings found =
      here({{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "16"}, {"NNODES", "2"}, {"NODE_RANK", "1"}, {"RANK", "8"}});
  EXPECT_EQ(found.world_nodes, 2);
  EXPECT_EQ(found.node_rank, 1);
  EXPECT_EQ(found.master_port, std::nullopt);
}

TEST(PresetDetect, NoPreset) {
  for (const Variables& variables : std::initializer_list<Variables>{
           {},
           {{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "2"}},
           {{"WORLD_SIZE", "2"}, {"RANK", "0"}},
           {{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}}}) {
    auto found = look(variables);
    ASSERT_TRUE(found);
    EXPECT_FALSE(*found);
  }
}

TEST(PresetDetect, WhatMakesNoSenseIsSaid) {
  EXPECT_EQ(
      error({{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "2"}, {"RANK", "2"}}),
      "RANK='2' is preset in the environment, and is not a number from 0 to 1; set it right, unset it, or stay on "
      "this node with --mode local");
  EXPECT_NE(error({{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "0"}, {"RANK", "0"}}).find("WORLD_SIZE='0'"),
            std::string::npos);
}

TEST(Detect, InsideAWorkerTheAllocationIsSomebodyElses) {
  Variables variables = recorded("step-2-nodes-task-1");
  variables.insert({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "5"}, {"LOCAL_RANK", "1"}});
  const Surroundings found = here(variables);
  EXPECT_EQ(found.role, Role::kWorker);
  EXPECT_EQ(found.what, "inside rank 5 of another job");
}

}  // namespace
}  // namespace muster::cluster
