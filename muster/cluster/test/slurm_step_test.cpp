#include "muster/cluster/slurm/step.h"

#include <gmock/gmock.h>

#include "muster/base/strings.h"
#include "muster/cluster/slurm/detect.h"
#include "muster/cluster/slurm/node_address.h"

namespace muster::cluster::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

// As `scontrol show job -d` of Slurm 22.05 has it.
constexpr std::string_view kUneven = R"(JobId=9 JobName=c.sh
   NodeList=n[1-3]
   NumNodes=3 NumCPUs=3 NumTasks=3 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   JOB_GRES=gpu:4
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)
     Nodes=n[2-3] CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)
   TresPerJob=gres:gpu:4
)";

TEST(Devices, AreReadOfEachNode) {
  const Devices devices = parse_devices(kUneven);
  EXPECT_TRUE(devices.counted_by_job);
  EXPECT_THAT(devices.node, ElementsAre(Pair("n1", "gpu:2"), Pair("n2", "gpu:1"), Pair("n3", "gpu:1")));
}

TEST(Devices, MayHaveTypesAndBeOfSeveralKinds) {
  const Devices devices = parse_devices(
      "     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2),nic:1(CNT:1)\n"
      "     Nodes=n3 CPU_IDs=0 Mem=0 GRES=\n   TresPerNode=gres:gpu:2\n");
  EXPECT_FALSE(devices.counted_by_job);
  EXPECT_THAT(devices.node, ElementsAre(Pair("n1", "gpu:a100:2,gpu:v100:1,nic:1"),
                                        Pair("n2", "gpu:a100:2,gpu:v100:1,nic:1"), Pair("n3", "")));
}

// A step of a job that asked for --gres=gpu:4 may not ask for gpu:v100:4, which is what the job has.
TEST(Devices, AreAskedForWithoutTheirType) {
  const Devices devices =
      parse_devices("     Nodes=n1 GRES=gpu:v100:4(IDX:0-3),nic:1(CNT:1)\n     Nodes=n2 GRES=gpu:2\n");
  EXPECT_THAT(devices.node, ElementsAre(Pair("n1", "gpu:4,nic:1"), Pair("n2", "gpu:2")));
}

TEST(Divide, OneSrunForAllWhoHaveTheSame) {
  const std::vector<std::string> hosts = {"n1", "n2", "n3"};
  EXPECT_THAT(divide(hosts, std::nullopt, {}), ElementsAre(Group{{0, 1, 2}, {}}));
  Devices none{.counted_by_job = false, .node = {{"n1", ""}, {"n2", ""}, {"n3", ""}}};
  EXPECT_THAT(divide(hosts, none, {}), ElementsAre(Group{{0, 1, 2}, {}}));
  Devices same{.counted_by_job = false, .node = {{"n1", "gpu:4"}, {"n2", "gpu:4"}, {"n3", "gpu:4"}}};
  EXPECT_THAT(divide(hosts, same, {}), ElementsAre(Group{{0, 1, 2}, {"--gres=gpu:4"}}));
  Devices some{.counted_by_job = false, .node = {{"n1", "gpu:4"}, {"n2", ""}, {"n3", "gpu:4"}}};
  EXPECT_THAT(divide(hosts, some, {}), ElementsAre(Group{{0, 2}, {"--gres=gpu:4"}}, Group{{1}, {"--gres=none"}}));
}

// As `scontrol show node` of Slurm 22.05 has it.
TEST(NodeAddress, IsReadOfScontrol) {
  EXPECT_EQ(parse_node_address("NodeName=n1 Arch=x86_64 CoresPerSocket=8 \n   CPUAlloc=0 CPUTot=8 CPULoad=1.02\n"
                               "   NodeAddr=10.88.0.11 NodeHostName=n1 Version=22.05.8\n"),
            "10.88.0.11");
  EXPECT_EQ(parse_node_address("Node n7 not found"), "");
}

// --gpus=4 on three nodes: no step on several nodes would get the second one of n1.
TEST(Divide, WhereTheJobHasATotalEachNodeOfSeveralIsAlone) {
  EXPECT_THAT(divide({"n1", "n2", "n3"}, parse_devices(kUneven), {}),
              ElementsAre(Group{{0}, {"--gpus=2"}}, Group{{1, 2}, {"--gres=gpu:1"}}));
  Devices even{.counted_by_job = true, .node = {{"n1", "gpu:a100:2"}, {"n2", "gpu:a100:2"}}};
  EXPECT_THAT(divide({"n1", "n2"}, even, {}),
              ElementsAre(Group{{0}, {"--gpus=a100:2"}}, Group{{1}, {"--gpus=a100:2"}}));
}

TEST(Divide, OfANodeThatIsNotKnownSrunDecides) {
  EXPECT_THAT(divide({"n1", "x"}, Devices{.counted_by_job = false, .node = {{"n1", "gpu:1"}}}, {}),
              ElementsAre(Group{{0}, {"--gres=gpu:1"}}, Group{{1}, {}}));
}

// A step is of one component.
TEST(Divide, ByTheComponentsOfAHeterogeneousJob) {
  const Components components = components_of({{"SLURM_JOB_NODELIST", "n1"},
                                               {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[1-3]"},
                                               {"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"}});
  EXPECT_THAT(components, ElementsAre(Pair("n1", 0), Pair("n2", 1), Pair("n3", 1)));
  EXPECT_THAT(divide({"n1", "n2", "n3"}, std::nullopt, components),
              ElementsAre(Group{{0}, {"--het-group=0"}}, Group{{1, 2}, {"--het-group=1"}}));
  const Devices devices{.counted_by_job = false, .node = {{"n1", ""}, {"n2", "gpu:2"}, {"n3", "gpu:2"}}};
  EXPECT_THAT(
      divide({"n1", "n2", "n3"}, devices, components),
      ElementsAre(Group{{0}, {"--het-group=0", "--gres=none"}}, Group{{1, 2}, {"--het-group=1", "--gres=gpu:2"}}));
  EXPECT_THAT(components_of({{"SLURM_JOB_NODELIST", "n1"}}), IsEmpty());
}

TEST(BoundCpus, AreThoseOfAllTasks) {
  EXPECT_THAT(bound_cpus("mask_cpu:", "0x1,0x2", 2), ElementsAre(0, 1));
  EXPECT_THAT(bound_cpus("mask_cpu:", "0x80000000000000F0,0x30", 2), ElementsAre(4, 5, 6, 7, 63));
  EXPECT_THAT(bound_cpus("map_cpu:", "3,1,3", 3), ElementsAre(1, 3));
  EXPECT_THAT(bound_cpus("map_cpu:", "0,1,2,3,4,5", 2), ElementsAre(0, 1)) << "the rest is for tasks that are not here";
  for (const char* list : {"", "0x", "0x1,", "x", "0x1G"})
    EXPECT_THAT(bound_cpus("mask_cpu:", list, 2), IsEmpty()) << list;
  for (const char* list : {"-1", "1,x", "99999999"}) EXPECT_THAT(bound_cpus("map_cpu:", list, 2), IsEmpty()) << list;
  EXPECT_THAT(bound_cpus("none", "0x1", 2), IsEmpty());
  EXPECT_THAT(bound_cpus("rank", "", 2), IsEmpty());
}

TEST(SrunCommand, OneTaskANodeBesideEverythingElse) {
  Options options;
  options.program = "/opt/muster";
  options.fetch = {.endpoints = {"10.0.0.1:7"}, .nonce = "ab", .munge = true};
  EXPECT_EQ(join(srun_command(options, {"n1", "n2"}, {"--gres=gpu:4"}, ""), " "),
            "srun --nodelist=n1,n2 --nodes=2 --ntasks=2 --ntasks-per-node=1 --overlap --mem=0 "
            "--cpu-bind=none --mpi=none --no-kill --kill-on-bad-exit=0 --wait=0 --export=ALL --chdir=/ --input=none "
            "--label --gres=gpu:4 /opt/muster agent --fetch 10.0.0.1:7 --nonce ab --by munge");
  const std::string sent = join(srun_command(options, {"n1"}, {}, "/tmp/x"), " ");
  EXPECT_THAT(sent, HasSubstr("--bcast=/tmp/x --send-libs=no /opt/muster agent"));
  EXPECT_TRUE(sent.ends_with("--program temporary"));
  EXPECT_THAT(sent, Not(HasSubstr("--gres")));
}

TEST(SrunEnvironment, NothingShapesTheStepButItsOptions) {
  EXPECT_THAT(srun_environment({{"PATH", "/bin"},
                                {"SLURM_JOB_ID", "7"},
                                {"SLURM_CONF", "/etc/slurm.conf"},
                                {"SLURM_CPUS_PER_TASK", "4"},
                                {"SRUN_CPUS_PER_TASK", "4"},
                                {"SLURM_NTASKS", "8"},
                                {"SLURM_CPU_BIND", "verbose"},
                                {"SLURM_CPU_BIND_TYPE", "mask_cpu"},
                                {"SLURM_GPUS_PER_TASK", "1"},
                                {"SLURM_JOB_GPUS", "0,1"},
                                {"SLURM_STEP_GPUS", "0,1"},
                                {"SLURM_GPUS_ON_NODE", "2"},
                                {"SLURM_EXPORT_ENV", "NONE"},
                                {"SLURM_HINT", "nomultithread"},
                                {"SLURM_MEM_PER_NODE", "100"}}),
              ElementsAre(Pair("PATH", "/bin"), Pair("SLURM_JOB_ID", "7"), Pair("SLURM_CONF", "/etc/slurm.conf")));
}

TEST(MayHaveDevices, ABatchScriptKnowsAShellOfSallocDoesNot) {
  EXPECT_FALSE(may_have_devices({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}));
  EXPECT_TRUE(may_have_devices({{"SLURM_PROCID", "0"}, {"SLURM_GPUS_ON_NODE", "2"}}));
  EXPECT_TRUE(may_have_devices({{"SLURM_PROCID", "0"}, {"SLURM_GPUS", "4"}}));
  EXPECT_TRUE(may_have_devices({{"SLURM_JOB_ID", "7"}}));
  EXPECT_TRUE(may_have_devices({{"SLURM_PROCID", "0"}, {"SLURM_HET_SIZE", "2"}}));
}

}  // namespace
}  // namespace muster::cluster::slurm
