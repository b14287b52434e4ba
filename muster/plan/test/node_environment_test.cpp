#include "muster/plan/node_environment.h"

#include <gmock/gmock.h>

namespace muster::plan {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(NodeEnvironment, WhatBelongsToAMachineOrASessionIsNotSent) {
  EXPECT_THAT(environment_to_send({{"PATH", "/bin"},
                                   {"HOME", "/home/me"},
                                   {"SSH_CONNECTION", "x"},
                                   {"DBUS_SESSION_BUS_ADDRESS", "x"},
                                   {"XDG_RUNTIME_DIR", "/run/user/7"},
                                   {"HOSTNAME", "here"},
                                   {"MUSTER_TOKEN", "secret"},
                                   {"NCCL_DEBUG", "INFO"}}),
              ElementsAre(Pair("PATH", "/bin"), Pair("NCCL_DEBUG", "INFO")));
}

TEST(NodeEnvironment, ANodeAddsWhatIsItsOwn) {
  const Environment own = {{"PATH", "/there"}, {"HOME", "/there/me"}, {"TMPDIR", "/there/tmp"}, {"SHELL", "/bin/sh"}};
  EXPECT_THAT(environment_of_node({{"PATH", "/bin"}, {"TMPDIR", "/given"}, {"MUSTER_TOKEN", "secret"}}, own),
              ElementsAre(Pair("PATH", "/bin"), Pair("TMPDIR", "/given"), Pair("HOME", "/there/me")));
}

TEST(NodeEnvironment, WhatASchedulerHasSetForANodeIsThatNodes) {
  const Environment sent = {{"PATH", "/bin"},
                            {"SLURM_NODEID", "0"},
                            {"SLURM_CPUS_PER_TASK", "4"},
                            {"SLURMD_NODENAME", "n1"},
                            {"CUDA_VISIBLE_DEVICES", "0,1,2"},
                            {"HIP_VISIBLE_DEVICES", "0"}};
  const Environment own = {{"PATH", "/there"},        {"SLURM_JOB_ID", "7"},         {"SLURM_NODEID", "1"},
                           {"SLURMD_NODENAME", "n2"}, {"CUDA_VISIBLE_DEVICES", "3"}, {"HOSTNAME", "n1"},
                           {"TMPDIR", "/tmp/of-task"}};
  EXPECT_THAT(
      environment_of_task(sent, own, "n2", 5),
      UnorderedElementsAre(Pair("PATH", "/bin"), Pair("SLURM_CPUS_PER_TASK", "4"), Pair("SLURM_JOB_ID", "7"),
                           Pair("SLURM_NODEID", "5"), Pair("SLURMD_NODENAME", "n2"), Pair("CUDA_VISIBLE_DEVICES", "3"),
                           Pair("HOSTNAME", "n2"), Pair("TMPDIR", "/tmp/of-task")));
}

TEST(NodeEnvironment, ANodeOfSlurmWithoutGpusIsNotToldOfAnothers) {
  EXPECT_THAT(environment_of_task({{"CUDA_VISIBLE_DEVICES", "0"},
                                   {"SLURM_JOB_GPUS", "0"},
                                   {"SLURM_STEP_GPUS", "0"},
                                   {"SLURM_GPUS_ON_NODE", "1"}},
                                  {{"SLURM_JOB_ID", "7"}}, "n2", 1),
              UnorderedElementsAre(Pair("SLURM_JOB_ID", "7"), Pair("HOSTNAME", "n2")));
  // A task of PBS has nothing of the script's environment, so what was exported there is all there is.
  EXPECT_THAT(
      environment_of_task({{"CUDA_VISIBLE_DEVICES", "0"}, {"PBS_NODENUM", "0"}}, {{"PBS_NODENUM", "1"}}, "n2", 1),
      UnorderedElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0"), Pair("PBS_NODENUM", "1"), Pair("HOSTNAME", "n2")));
}

TEST(NodeEnvironment, NoTokenForWorkers) {
  EXPECT_THAT(without_token({{"A", "1"}, {"MUSTER_TOKEN", "secret"}, {"B", "2"}}),
              ElementsAre(Pair("A", "1"), Pair("B", "2")));
}

}  // namespace
}  // namespace muster::plan
