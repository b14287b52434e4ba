#include <gmock/gmock.h>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/cli/test/plans.h"
#include "muster/launcher/door.h"
#include "muster/plan/mode.h"

namespace muster::cli {
namespace {

using namespace test;
using job::Mode;
using launcher::FanOut;
using launcher::Symmetric;
using plan::ModeChoice;
using testing::ElementsAre;
using testing::HasSubstr;
using Hosts = Symmetric::Hosts;

// A machine where Slurm has set what it set in a lab of real daemons (muster/cluster/test/slurm), or PBS what its sources
// say (muster/cluster/test/pbs).
Machine inside(const std::string& name, const std::string& scheduler = "slurm") {
  Machine machine;
  const std::string folder = fmt::format("{}/{}/", MUSTER_RECORDED, scheduler);
  auto text = read_file(folder + name + ".env");
  EXPECT_TRUE(text) << name;
  if (!text) return machine;
  for (std::string_view line : split(*text, '\n')) {
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) machine.variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  if (scheduler == "slurm") machine.programs["srun"] = "/usr/bin/srun";
  if (auto hosts = machine.variables.find("PBS_NODEFILE"); hosts != machine.variables.end())
    if (auto nodefile = read_file(folder + hosts->second)) machine.texts[hosts->second] = *nodefile;
  return machine;
}

bool local(const Machine& machine, const Words& words, Verb verb = Verb::kRun) {
  auto plan = machine.plan(verb, words);
  EXPECT_TRUE(plan) << plan.error().text();
  return plan && std::holds_alternative<job::JobSpec>(plan->start);
}

// --- A batch script, salloc -------------------------------------------------------------------------------------------

TEST(Allocation, ABatchScriptStartsItsNodes) {
  for (const char* name : {"batch-2-nodes", "batch-plain", "batch-3-tasks", "salloc", "salloc-interactive-step"}) {
    const FanOut spec = fan_out(inside(name), {"train.py"});
    EXPECT_EQ(spec.adapter->name(), "slurm") << name;
    EXPECT_THAT(names(spec.hosts), ElementsAre("n1", "n2")) << name;
    EXPECT_EQ(spec.membership.min_nodes, 2);
    EXPECT_EQ(spec.membership.max_nodes, 2);
    EXPECT_EQ(notes(inside(name), {"train.py"}), "") << name;
  }
}

TEST(Allocation, StayingOnOneOfSeveralNodesIsSaid) {
  const Machine machine = inside("batch-2-nodes");
  EXPECT_TRUE(local(machine, {"--mode", "symmetric", "train.py"}));
  EXPECT_THAT(notes(machine, {"--mode", "symmetric", "train.py"}),
              HasSubstr("--mode symmetric without --nnodes: starting on this node alone, and Slurm job"));
  EXPECT_THAT(notes(machine, {"--mode", "symmetric", "train.py"}),
              HasSubstr(" has 2; for all of them leave --mode out, or use srun -N 2\n"));
  EXPECT_EQ(notes(inside("batch-one-node"), {"--mode", "symmetric", "train.py"}), "");
}

TEST(Allocation, AHostOfAnotherJobIsNamed) {
  const Machine machine = inside("batch-2-nodes");
  EXPECT_THAT(notes(machine, {"--hosts", "n1,n3", "train.py"}), HasSubstr("n3 is not of Slurm job "));
  EXPECT_THAT(notes(machine, {"--hosts", "n1,n3", "train.py"}), HasSubstr(", which has n1, n2\n"));
  EXPECT_EQ(notes(machine, {"--hosts", "n1,n2.cluster,10.0.0.3", "train.py"}), "");
  EXPECT_EQ(notes(Machine(), {"--hosts", "n1,n3", "train.py"}), "");
}

TEST(Allocation, APortThatOneNodeHasTakenIsForgiven) {
  Machine machine = inside("batch-one-node");
  machine.taken_port = 4242;
  EXPECT_EQ(machine.run({"--master-port=4242", "train.py"}).master_port, 0);
  EXPECT_EQ(notes(machine, {"--master-port=4242", "train.py"}),
            "--master-port: port 4242 is taken by pid 1 (init); taking a free one\n");
}

TEST(Allocation, OneNodeNeedsNoSrun) {
  Machine machine = inside("batch-one-node");
  machine.programs.erase("srun");
  EXPECT_TRUE(local(machine, {"train.py"}));
  // But salloc's shell is on another machine.
  machine = inside("salloc");
  machine.variables["SLURM_JOB_NODELIST"] = "n1";
  EXPECT_THAT(names(fan_out(machine, {"train.py"}).hosts), ElementsAre("n1"));
}

TEST(Allocation, FewerNodesThanThereAre) {
  const Machine machine = inside("batch-typed-gpus");
  EXPECT_THAT(names(fan_out(machine, {"--nnodes=2", "train.py"}).hosts), ElementsAre("n1", "n2"));
  EXPECT_TRUE(local(machine, {"--nnodes=1", "train.py"}));
  const FanOut elastic = fan_out(machine, {"--nnodes=1:2", "train.py"});
  EXPECT_THAT(names(elastic.hosts), ElementsAre("n1", "n2", "n3")) << "the third is a spare";
  EXPECT_EQ(elastic.membership.min_nodes, 1);
  EXPECT_EQ(elastic.membership.max_nodes, 2);
  const FanOut clipped = fan_out(machine, {"--nnodes=2:8", "train.py"});
  EXPECT_EQ(clipped.membership.max_nodes, 3);
  EXPECT_EQ(notes(machine, {"--nnodes=2:8", "train.py"}),
            "--nnodes 2:8: Slurm job 5 has 3, so there will be no more\n");
}

TEST(Allocation, MoreNodesThanThereAre) {
  EXPECT_EQ(inside("batch-2-nodes").error({"--nnodes=4", "train.py"}),
            "--nnodes: 4 nodes were asked for, and Slurm job 1 has 2; leave it out to use them all, or ask the "
            "scheduler for more");
  EXPECT_THAT(inside("batch-2-nodes").error({"--nnodes=3:4", "train.py"}), HasSubstr("3 nodes were asked for"));
}

// What a script says for torchrun on every node is not obeyed into a wait for nodes that nobody starts.
TEST(Allocation, OptionsForEveryNodeAreNotNeeded) {
  const Machine machine = inside("batch-2-nodes");
  const Words words = {"--nnodes=2", "--node_rank=0", "--master_addr=n1", "--master_port=12355", "train.py"};
  for (Verb verb : {Verb::kRun, Verb::kTorchrun, Verb::kLaunch}) {
    EXPECT_THAT(names(fan_out(machine, words, verb).hosts), ElementsAre("n1", "n2"));
    EXPECT_THAT(
        notes(machine, words, verb),
        HasSubstr("--node-rank, --master-addr are not needed: muster starts every node of the allocation itself "
                  "and tells each where to meet\n"));
  }
  EXPECT_EQ(fan_out(machine, words).job.master_port, 12355);
  EXPECT_THAT(notes(machine, {"--rdzv-endpoint=n1:1", "--rdzv-backend=c10d", "train.py"}),
              HasSubstr("--rdzv-endpoint is not needed: "));
}

TEST(Allocation, TorchrunWithoutNnodesStaysOnThisNode) {
  EXPECT_TRUE(local(inside("batch-2-nodes"), {"train.py"}, Verb::kTorchrun));
  EXPECT_TRUE(local(inside("step-2-nodes-task-1"), {"train.py"}, Verb::kTorchrun));
  Machine broken;
  broken.variables["SLURM_JOB_ID"] = "1";
  EXPECT_TRUE(local(broken, {"train.py"}, Verb::kTorchrun)) << "what it does not need cannot be wrong";
}

TEST(Allocation, Standalone) {
  EXPECT_TRUE(local(inside("batch-2-nodes"), {"--standalone", "train.py"}));
  const Words words = {"--standalone", "--nnodes", "2", "--master_addr", "n1", "train.py"};
  EXPECT_THAT(names(fan_out(inside("batch-2-nodes"), words, Verb::kTorchrun).hosts), ElementsAre("n1", "n2"));
  EXPECT_THAT(notes(inside("batch-2-nodes"), words, Verb::kTorchrun),
              HasSubstr("--standalone is ignored: --nnodes asks for 2\n"));
  // Without a scheduler, too, where it says who meets.
  Machine bare;
  EXPECT_EQ(symmetric(bare, words, Verb::kTorchrun).host, "n1");
  EXPECT_THAT(notes(bare, words, Verb::kTorchrun), HasSubstr("--standalone is ignored: --nnodes asks for 2\n"));
}

// --node_rank=$PBS_NODEID: there is no such variable.
TEST(Allocation, AnEmptyNodeRank) {
  const Words words = {"--nnodes=2", "--node_rank=", "--master_addr=n1", "train.py"};
  EXPECT_THAT(names(fan_out(inside("batch-2-nodes"), words, Verb::kTorchrun).hosts), ElementsAre("n1", "n2"));
  EXPECT_THAT(notes(inside("batch-2-nodes"), words, Verb::kTorchrun),
              HasSubstr("--node-rank is empty, and ignored: the allocation says which node this is\n"));
  EXPECT_EQ(symmetric(inside("step-2-nodes-task-1"), words, Verb::kTorchrun).job.membership->rank, 1);
  Machine bare;
  EXPECT_THAT(bare.error(words, Verb::kTorchrun), HasSubstr("invalid int value: ''"));
  EXPECT_THAT(bare.error(words), HasSubstr("--node-rank"));
  Machine preset = inside("step-2-nodes-task-1");
  preset.variables["PET_NODE_RANK"] = "";
  EXPECT_EQ(symmetric(preset, {"train.py"}).job.membership->rank, 1);
}

TEST(Allocation, WhatIsMissing) {
  Machine machine = inside("batch-2-nodes");
  machine.programs.erase("srun");
  EXPECT_EQ(
      machine.error({"train.py"}),
      "this is the batch script of Slurm job 1 (train) on 2 nodes, and there is no srun on PATH to start its nodes "
      "with; add Slurm's bin directory to PATH, or reach them with ssh: --hosts n1,n2");
  machine.variables.erase("SLURM_JOB_NODELIST");
  machine.variables.erase("SLURM_NODELIST");
  EXPECT_THAT(machine.error({"train.py"}), HasSubstr("SLURM_JOB_ID=1 is set and no SLURM_JOB_NODELIST"));
  EXPECT_TRUE(local(machine, {"--mode=local", "train.py"}));
  EXPECT_THAT(names(fan_out(machine, {"--hosts=a,b", "train.py"}).hosts), ElementsAre("a", "b"));
}

TEST(Allocation, PbsStartsItsNodesToo) {
  Machine machine;
  machine.variables = {{"PBS_ENVIRONMENT", "PBS_BATCH"},
                       {"PBS_JOBID", "2.p0"},
                       {"PBS_NODEFILE", "/nodefile"},
                       {"PBS_NODENUM", "0"},
                       {"PBS_TASKNUM", "1"}};
  machine.texts["/nodefile"] = "p1\np1\np2\np1\n";
  const FanOut spec = fan_out(machine, {"train.py"});
  EXPECT_EQ(spec.adapter->name(), "pbs");
  EXPECT_THAT(names(spec.hosts), ElementsAre("p1", "p2"));
  EXPECT_THAT(machine.error({"--nnodes=3", "train.py"}), HasSubstr("3 nodes were asked for, and PBS job 2.p0 has 2"));
  machine.texts.clear();
  EXPECT_THAT(machine.error({"train.py"}), HasSubstr("its nodefile cannot be read"));
  machine.texts["/nodefile"] = "p1\n";
  EXPECT_TRUE(local(machine, {"train.py"}));
}

TEST(Allocation, DevicesThatTheUserHasChosenHoldOnEveryNode) {
  auto forwarded = [](const Machine& machine) { return env_of(machine.plan(Verb::kRun, {"train.py"})); };
  Machine machine = inside("batch-2-nodes");
  EXPECT_THAT(forwarded(machine), ElementsAre()) << "Slurm's own";
  machine.variables["CUDA_VISIBLE_DEVICES"] = "2,3";
  EXPECT_THAT(forwarded(machine), ElementsAre("CUDA_VISIBLE_DEVICES=2,3"));
  EXPECT_EQ(notes(machine, {"train.py"}), "CUDA_VISIBLE_DEVICES=2,3 is not Slurm's: every node uses these devices\n");
  machine.variables["CUDA_VISIBLE_DEVICES"] = "GPU-aa,GPU-bb";
  EXPECT_EQ(
      machine.error({"train.py"}),
      "CUDA_VISIBLE_DEVICES=GPU-aa,GPU-bb names devices of one node, and the job has 2; use numbers, or unset it");
  machine.variables.erase("CUDA_VISIBLE_DEVICES");
  machine.variables["HIP_VISIBLE_DEVICES"] = "1";
  machine.variables["ZE_AFFINITY_MASK"] = "0,1,2,3";
  EXPECT_THAT(forwarded(machine), ElementsAre("HIP_VISIBLE_DEVICES=1"));
  EXPECT_THAT(forwarded(inside("batch-uneven-gpus")), ElementsAre());
  EXPECT_THAT(forwarded(inside("batch-typed-gpus")), ElementsAre());
}

TEST(Allocation, DevicesOfSlurmAreThoseOfTheFirstProcess) {
  auto first = [](const std::string& devices) { return Environment{{"CUDA_VISIBLE_DEVICES", devices}}; };
  Machine machine = inside("batch-2-nodes");
  for (const char* name : {"GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"})
    machine.variables.erase(name);
  machine.variables["SLURM_GPUS_ON_NODE"] = "2";
  machine.variables["SLURM_JOB_GPUS"] = "2,3";
  machine.variables["CUDA_VISIBLE_DEVICES"] = "0,1";
  machine.job_environment = first("2,3");
  EXPECT_EQ(notes(machine, {"train.py"}), "CUDA_VISIBLE_DEVICES=0,1 is not Slurm's: every node uses these devices\n");
  machine.job_environment = first("0,1");
  EXPECT_EQ(notes(machine, {"train.py"}), "") << "Slurm counts from 0 if it hides the others' devices";
  machine.job_environment.reset();
  EXPECT_EQ(notes(machine, {"train.py"}),
            "CUDA_VISIBLE_DEVICES=0,1 is taken for Slurm's: every node uses what Slurm gives it; to choose these "
            "devices on every node: --env CUDA_VISIBLE_DEVICES=0,1\n");
  EXPECT_THAT(env_of(machine.plan(Verb::kRun, {"train.py"})), ElementsAre());
  for (const char* name : {"SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"}) machine.variables.erase(name);
  machine.job_environment = first("0,1");
  EXPECT_EQ(notes(machine, {"train.py"}), "") << "of gres/shard or gres/mps";
}

TEST(Allocation, DevicesThatANodeDoesNotHave) {
  Machine machine;
  machine.variables = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_GPUS", "4"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  Assignment assignment;
  assignment.host = "n2";
  const auto error = [&](const std::string& devices) {
    auto plan = machine.plan_as_member(Verb::kRun, {"--env=CUDA_VISIBLE_DEVICES=" + devices, "--rdzv-id=1", "train.py"},
                                       assignment);
    return plan ? "accepted" : plan.error().text();
  };
  EXPECT_EQ(error("0"), "accepted");
  EXPECT_EQ(error(""), "accepted") << "no device at all";
  EXPECT_EQ(error("2,3"),
            "CUDA_VISIBLE_DEVICES=2,3: the job has no device 2 on n2, where Slurm has set 0; name devices that the job "
            "has on every node, or unset it");
}

TEST(Allocation, DevicesThatTheUserHasChosenInAJobOfPbs) {
  Machine machine;
  machine.variables = {{"PBS_ENVIRONMENT", "PBS_BATCH"},
                       {"PBS_JOBID", "2.p0"},
                       {"PBS_NODEFILE", "/nodefile"},
                       {"PBS_NODENUM", "0"},
                       {"PBS_TASKNUM", "1"},
                       {"CUDA_VISIBLE_DEVICES", "2,3"}};
  machine.texts["/nodefile"] = "p1\np2\n";
  auto forwarded = [&] { return env_of(machine.plan(Verb::kRun, {"train.py"})); };
  EXPECT_THAT(forwarded(), ElementsAre()) << "the first process of the job cannot be asked";
  auto given = [](const char* value) {
    return Environment{std::pair<std::string, std::string>("CUDA_VISIBLE_DEVICES", value)};
  };
  machine.job_environment = given("2,3");
  EXPECT_THAT(forwarded(), ElementsAre()) << "PBS has set it";
  machine.job_environment = given("0,1,2,3");
  EXPECT_THAT(forwarded(), ElementsAre("CUDA_VISIBLE_DEVICES=2,3"));
}

TEST(Allocation, SlotsThatBecomeFewerWorkersAreNamed) {
  Machine machine = inside("packed", "pbs");
  EXPECT_EQ(notes(machine, {"train.py"}),
            "PBS gives 2 slots on 1 node (lines of its nodefile), and they become 1 worker: muster starts one per GPU, "
            "and there is none; for more write muster run --nproc-per-node 2\n");
  EXPECT_EQ(notes(machine, {"--nproc-per-node=1", "train.py"}), "");
  machine.gpus = {1, "x", {"0"}, "CUDA_VISIBLE_DEVICES"};
  EXPECT_EQ(notes(machine, {"train.py"}), "");
}

TEST(Step, TasksThatBecomeFewerWorkersAreNamed) {
  Machine machine = inside("step-4-a-node");
  machine.gpus = {4, "x", {"0", "1", "2", "3"}, "CUDA_VISIBLE_DEVICES"};
  EXPECT_EQ(notes(machine, {"train.py"}), "");
  machine.gpus = {};
  EXPECT_EQ(notes(machine, {"train.py"}), "") << "the first node says it";
  machine.variables["SLURM_NODEID"] = "0";
  EXPECT_EQ(notes(machine, {"train.py"}),
            "the 4 tasks that srun started on each node become 1 worker per node: muster starts one per GPU, and there "
            "is none; for 4 workers per node write muster run --nproc-per-node 4\n");
  EXPECT_EQ(notes(machine, {"--nproc-per-node=2", "train.py"}), "");
  EXPECT_THAT(notes(machine, {"--nnodes=2", "train.py"}, Verb::kTorchrun), testing::Not(HasSubstr("become")))
      << "torchrun's default is 1";
}

// --- A step of srun ---------------------------------------------------------------------------------------------------

TEST(Step, NodesFindEachOther) {
  const Symmetric first = symmetric(inside("step-2-nodes-task-0"), {"train.py"});
  EXPECT_EQ(first.hosts, Hosts::kYes);
  EXPECT_EQ(first.job.membership->rank, 0);
  EXPECT_EQ(first.job.run_id, "8.0");
  EXPECT_EQ(first.candidates, launcher::derived_ports("8.0"));
  EXPECT_THAT(first.candidates, testing::SizeIs(16));
  EXPECT_TRUE(first.membership.fixed_ranks);
  EXPECT_EQ(first.membership.min_nodes, 2);
  EXPECT_FALSE(first.job.membership->store_on_coordinator_port);
  const Symmetric second = symmetric(inside("step-2-nodes-task-1"), {"train.py"});
  EXPECT_EQ(second.hosts, Hosts::kNo);
  EXPECT_EQ(second.job.membership->rank, 1);
  EXPECT_EQ(second.job.membership->coordinators[0], fmt::format("n1:{}", launcher::derived_ports("9.0")[0]));
  EXPECT_EQ(notes(inside("step-2-nodes-task-1"), {"train.py"}), "");
}

TEST(Step, SlurmMayKnowWhatNoResolverDoes) {
  Machine second = inside("step-2-nodes-task-1");
  second.slurm_address = "10.88.0.11";
  EXPECT_EQ(symmetric(second, {"train.py"}).job.membership->coordinators[0],
            fmt::format("10.88.0.11:{}", launcher::derived_ports("9.0")[0]));
}

TEST(Step, EveryNodeDerivesTheSame) {
  Machine one = inside("step-2-nodes-task-0"), other = inside("step-2-nodes-task-1");
  one.key = other.key = "key";
  other.variables["SLURM_JOB_ID"] = "8";
  const Symmetric first = symmetric(one, {"train.py"}), second = symmetric(other, {"train.py"});
  EXPECT_EQ(first.candidates, second.candidates);
  EXPECT_EQ(first.job.membership->token.hex(), second.job.membership->token.hex());
  other.variables["SLURM_STEP_ID"] = "1";
  EXPECT_NE(symmetric(other, {"train.py"}).candidates, first.candidates);
  EXPECT_NE(symmetric(other, {"train.py"}).job.membership->token.hex(), first.job.membership->token.hex());
}

TEST(Step, TheTokenComesByMungeUnlessOneIsGiven) {
  Machine one = inside("step-2-nodes-task-0"), other = inside("step-2-nodes-task-1");
  other.variables["SLURM_JOB_ID"] = "8";
  one.has_munge = other.has_munge = true;
  const Symmetric first = symmetric(one, {"train.py"}), second = symmetric(other, {"train.py"});
  EXPECT_NE(first.sealed_as, "");
  EXPECT_EQ(first.sealed_as, second.sealed_as);
  const std::string step = "step " + one.variables["SLURM_STEP_ID"] + " of Slurm job " + one.variables["SLURM_JOB_ID"];
  EXPECT_EQ(first.job.membership->token.job(), step);
  const Symmetric named = symmetric(one, {"--rdzv-id", "x", "train.py"});
  EXPECT_EQ(named.sealed_as, fmt::format("symmetric\n{}\n{}\nx", step, named.port));
  EXPECT_FALSE(first.job.membership->open_to_all);
  EXPECT_FALSE(one.key_made) << "no home directory is needed";
  one.variables["MUSTER_TOKEN"] = "secret";
  EXPECT_EQ(symmetric(one, {"train.py"}).sealed_as, "");
  EXPECT_EQ(symmetric(other, {"--insecure", "train.py"}).sealed_as, "");
}

// Two jobs of one user with the same script, which gives an endpoint.
TEST(Step, AnEndpointDoesNotMakeTwoJobsOne) {
  const Words words = {"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_id=12345", "--rdzv_endpoint=n1:3000", "train.py"};
  for (bool munge : {true, false}) {
    Machine one = inside("step-2-nodes-task-0"), other = inside("step-2-nodes-task-0");
    one.has_munge = other.has_munge = munge;
    one.key = other.key = "key";
    other.variables["SLURM_JOB_ID"] = "99";
    for (Verb verb : {Verb::kRun, Verb::kTorchrun}) {
      const Symmetric first = symmetric(one, words, verb), second = symmetric(other, words, verb);
      EXPECT_NE(first.job.membership->token.job(), second.job.membership->token.job());
      EXPECT_EQ(second.job.membership->token.job(), "step 0 of Slurm job 99");
      EXPECT_EQ(first.sealed_as == second.sealed_as, !munge);
    }
  }
  Machine later = inside("step-2-nodes-task-0");
  later.variables["SLURM_STEP_ID"] = "1";
  EXPECT_THAT(symmetric(later, words).job.membership->token.job(), testing::StartsWith("step 1 of"));
}

// for n in …; do srun -N1 -w $n muster run … &
TEST(Step, StepsOfOneNodeEachAreOneJob) {
  const Words words = {"--nnodes=2", "--node_rank=1", "--master_addr=n1", "--master_port=12355", "train.py"};
  EXPECT_EQ(symmetric(inside("step-one-of-larger"), words).job.membership->token.job(), "Slurm job 11");
}

TEST(Step, OfALargerAllocation) {
  const Symmetric spec = symmetric(inside("step-of-larger"), {"train.py"});
  EXPECT_EQ(spec.membership.min_nodes, 2);
  EXPECT_THAT(spec.job.membership->coordinators[0], testing::StartsWith("n2:"));
  EXPECT_TRUE(local(inside("step-one-of-larger"), {"train.py"}));
  EXPECT_EQ(notes(inside("step-one-of-larger"), {"train.py"}),
            "this step has 1 of the job's 3 nodes: starting on n2 alone; on all of them: in the batch script, or with "
            "srun -N 3\n");
  EXPECT_EQ(notes(inside("direct-one-node"), {"train.py"}), "");
  EXPECT_EQ(inside("step-one-of-larger").error({"--nnodes=2", "train.py"}),
            "--nnodes: 2 nodes were asked for, and this step of Slurm job 11 has 1; start it with srun -N 2, or in the "
            "batch script without srun");
}

// $HOSTNAME in a step: srun copies it from the machine that the job was submitted from.
TEST(Step, WhereTheJobWasSubmittedIsNoMeetingPoint) {
  const Words endpoint = {"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_id=12345", "--rdzv_endpoint=ctl.site:3000",
                          "train.py"};
  const Symmetric spec = symmetric(inside("step-2-nodes-task-1"), endpoint);
  EXPECT_THAT(spec.job.membership->coordinators[0], testing::StartsWith("n1:"));
  EXPECT_THAT(
      notes(inside("step-2-nodes-task-1"), endpoint),
      HasSubstr("--rdzv-endpoint ctl.site:3000 is ignored: ctl.site is where the job was submitted, not one of"));
  const Words address = {"--nnodes=2", "--node_rank=1", "--master_addr=ctl", "train.py"};
  EXPECT_EQ(symmetric(inside("step-2-nodes-task-1"), address).job.membership->rank, 1);
  EXPECT_THAT(notes(inside("step-2-nodes-task-1"), address), HasSubstr("--master-addr ctl is ignored"));
  EXPECT_TRUE(
      local(inside("direct-one-node"), {"--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=ctl:3000", "train.py"}));

  Machine on_a_node = inside("step-2-nodes-task-1");
  on_a_node.variables["SLURM_SUBMIT_HOST"] = "n1";
  const Words there = {"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=n1:3000", "train.py"};
  EXPECT_EQ(symmetric(on_a_node, there).port, 3000);
}

// for n in …; do srun -N1 -w $n torchrun --node_rank=$i --master_addr=…; done
TEST(Step, OneNodeStepsThatMeetAreObeyed) {
  const Words words = {"--nnodes=2", "--node_rank=1", "--master_addr=n1", "--master_port=12355", "train.py"};
  const Symmetric spec = symmetric(inside("step-one-of-larger"), words, Verb::kTorchrun);
  EXPECT_EQ(spec.job.membership->rank, 1);
  EXPECT_EQ(spec.host, "n1");
  EXPECT_EQ(spec.port, 12355);
}

TEST(Step, GivenOptionsAreObeyed) {
  const Words words = {"--nnodes=2", "--node_rank=1", "--master_addr=n1", "--master_port=12234", "train.py"};
  for (Verb verb : {Verb::kRun, Verb::kTorchrun, Verb::kLaunch}) {
    const Symmetric spec = symmetric(inside("step-2-nodes-task-1"), words, verb);
    EXPECT_EQ(spec.job.membership->rank, 1);
    EXPECT_EQ(spec.candidates, std::vector<uint16_t>{12234});
    EXPECT_EQ(spec.job.rdzv_backend, "static");
  }
  const Symmetric c10d = symmetric(
      inside("step-2-nodes-task-1"),
      {"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=n1", "--rdzv_id=7", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(c10d.job.membership->rank, std::nullopt);
  EXPECT_EQ(c10d.port, 29400);
}

// On the first node of the step, as in a batch script.
TEST(Step, APortAloneIsObeyed) {
  for (Verb verb : {Verb::kRun, Verb::kTorchrun}) {
    const Symmetric spec =
        symmetric(inside("step-2-nodes-task-1"), {"--nnodes=2", "--master-port=12234", "train.py"}, verb);
    EXPECT_EQ(spec.job.membership->rank, 1);
    EXPECT_EQ(spec.job.membership->coordinators, std::vector<std::string>{"n1:12234"});
    EXPECT_EQ(spec.job.rdzv_backend, "static");
  }
}

TEST(Step, WhatOldScriptsLeaveOutIsKnown) {
  Symmetric spec = symmetric(inside("step-2-nodes-task-1"), {"--nnodes=2", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(spec.job.membership->rank, 1);
  EXPECT_EQ(spec.candidates, launcher::derived_ports("9.0"));
  spec = symmetric(inside("step-2-nodes-task-1"), {"--master-addr=n1", "--nnodes=2", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(spec.job.membership->rank, 1);
  spec = symmetric(inside("step-2-nodes-task-1"), {"--master-addr=n1", "train.py"});
  EXPECT_EQ(spec.membership.min_nodes, 2);
}

// $SLURM_NODEID in the batch script is 0, and every node is told so.
TEST(Step, EveryNodeIsToldToBeTheFirst) {
  const Words words = {"--nnodes=2", "--node_rank=0", "--master_addr=10.9.9.9", "--master_port=1", "train.py"};
  const Symmetric spec = symmetric(inside("step-2-nodes-task-1"), words, Verb::kTorchrun);
  EXPECT_EQ(spec.job.membership->rank, 1);
  EXPECT_THAT(notes(inside("step-2-nodes-task-1"), words, Verb::kTorchrun),
              HasSubstr("--node-rank 0 is ignored: this is node 1 of the step, says Slurm\n"));
  // Where the nodes meet on this one, it is the first, whatever its number in the step.
  const Words own = {"--nnodes=2", "--node_rank=0", "--master_addr=here", "--master_port=1", "train.py"};
  EXPECT_EQ(symmetric(inside("step-2-nodes-task-1"), own, Verb::kTorchrun).job.membership->rank, 0);
  const Words c10d = {"--nnodes=2", "--node_rank=0", "--rdzv-backend=c10d", "--rdzv-endpoint=n1", "train.py"};
  EXPECT_THAT(notes(inside("step-2-nodes-task-1"), c10d, Verb::kTorchrun),
              HasSubstr("--node-rank is ignored: c10d gives ranks by the order of arrival"));
}

TEST(Step, NumbersThatContradictIt) {
  const Machine machine = inside("step-2-nodes-task-1");
  EXPECT_EQ(machine.error({"--nnodes=8", "--master-addr=n1", "train.py"}, Verb::kTorchrun),
            "--nnodes: 8 nodes were asked for, and this step of Slurm job 9 has 2; leave it out, or start it with srun "
            "-N 8; where nodes of several steps meet, add --mode symmetric");
  EXPECT_EQ(symmetric(machine, {"--nnodes=8", "--mode=symmetric", "--master-addr=n1", "--node-rank=5", "train.py"})
                .job.membership->rank,
            5);
  EXPECT_THAT(machine.error({"--nnodes=1", "train.py"}), HasSubstr("1 node was asked for"));
  const Symmetric elastic = symmetric(machine, {"--nnodes=1:2", "train.py"});
  EXPECT_EQ(elastic.job.membership->rank, std::nullopt);
  EXPECT_EQ(elastic.hosts, Hosts::kNo);
  EXPECT_EQ(elastic.membership.min_nodes, 1);
}

TEST(Step, GpusOfTasks) {
  EXPECT_EQ(symmetric(inside("step-4-a-node"), {"train.py"}).membership.min_nodes, 2);
  EXPECT_EQ(
      inside("step-bound-gpus").error({"train.py"}),
      "this step has 4 tasks per node, and each sees GPUs of its own only; muster needs one task that sees all; write "
      "srun -N 2 -n 2 --ntasks-per-node=1 --gpus-per-task=4 muster …, or start muster in the batch script without "
      "srun");
  EXPECT_TRUE(local(inside("step-bound-gpus"), {"--mode=local", "train.py"})) << "a job of its own each";
}

TEST(Step, ATerminalOfSeveralNodes) {
  Machine machine = inside("step-2-nodes-task-0");
  machine.variables["SLURM_PTY_PORT"] = "40000";
  EXPECT_THAT(notes(machine, {"train.py"}), HasSubstr("if only this one does: --mode fanout"));
  EXPECT_THAT(names(fan_out(machine, {"--mode=fanout", "train.py"}).hosts), ElementsAre("n1", "n2"));
}

TEST(Mode, Overrides) {
  EXPECT_THAT(names(fan_out(inside("step-one-of-larger"), {"--mode=fanout", "train.py"}).hosts),
              ElementsAre("n1", "n2", "n3"));
  EXPECT_TRUE(local(inside("batch-2-nodes"), {"--mode=local", "train.py"}));
  EXPECT_THAT(inside("batch-2-nodes").error({"--mode=local", "--nnodes=2", "train.py"}),
              HasSubstr("2 nodes were asked for, and --mode local is this one alone"));
  EXPECT_EQ(symmetric(inside("batch-2-nodes"), {"--mode=symmetric", "--nnodes=2", "--master-addr=h", "train.py"}).host,
            "h");
  Machine bare;
  EXPECT_THAT(bare.error({"--mode=fanout", "train.py"}), HasSubstr("there is no allocation here"));
  EXPECT_THAT(bare.error({"--mode=local", "--hosts=a", "train.py"}),
              HasSubstr("--hosts names nodes to start from here"));
}

// --- Preset -----------------------------------------------------------------------------------------------------------

TEST(Preset, IsObeyedAndSaid) {
  Machine machine;
  machine.variables = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "23456"}, {"WORLD_SIZE", "3"}, {"RANK", "2"}};
  const Symmetric spec = symmetric(machine, {"train.py"});
  EXPECT_EQ(spec.host, "head");
  EXPECT_EQ(spec.candidates, std::vector<uint16_t>{23456});
  EXPECT_EQ(spec.job.membership->rank, 2);
  EXPECT_EQ(spec.membership.min_nodes, 3);
  EXPECT_EQ(notes(machine, {"train.py"}),
            "node 2 of 3 that meet at head, preset in the environment; to run on this node alone: --mode local\n");
  EXPECT_TRUE(local(machine, {"--mode=local", "train.py"}));
  EXPECT_TRUE(local(machine, {"--standalone", "train.py"}));
  EXPECT_TRUE(local(machine, {"train.py"}, Verb::kTorchrun)) << "torchrun knows nothing of them";
  EXPECT_EQ(symmetric(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=x", "train.py"}).host, "x");
  machine.variables["LOCAL_RANK"] = "0";
  EXPECT_TRUE(local(machine, {"train.py"}));
}

TEST(Preset, PetVariablesAreOptions) {
  Machine machine;
  machine.variables = {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "head"}};
  EXPECT_EQ(symmetric(machine, {"train.py"}).job.membership->rank, 1);
}

TEST(Worker, InsideAJobTheAllocationIsNotOurs) {
  Machine machine = inside("step-2-nodes-task-1");
  machine.variables.insert({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "1"}, {"LOCAL_RANK", "0"}});
  EXPECT_TRUE(local(machine, {"train.py"}));
}

// --- muster where -----------------------------------------------------------------------------------------------------

ModeChoice choice(const Machine& machine) {
  const auto here = machine.facts().here;
  EXPECT_TRUE(here);
  return describe_mode(*here, machine.plan(Verb::kRun, {"train.py"}), machine.get("PET_NPROC_PER_NODE").value_or(""));
}

TEST(Where, RowsOfTheTable) {
  EXPECT_EQ(choice(inside("salloc-interactive-step")).row, 2);
  EXPECT_EQ(choice(inside("salloc-interactive-step")).mode, Mode::kFanOut);
  EXPECT_EQ(choice(inside("step-2-nodes-task-1")).row, 3);
  EXPECT_EQ(choice(inside("step-2-nodes-task-1")).mode, Mode::kSymmetric);
  EXPECT_EQ(choice(inside("step-one-of-larger")).row, 4);
  EXPECT_EQ(choice(inside("step-one-of-larger")).mode, Mode::kLocal);
  EXPECT_EQ(choice(inside("batch-2-nodes")).row, 5);
  EXPECT_EQ(choice(inside("batch-2-nodes")).mode, Mode::kFanOut);
  EXPECT_THAT(choice(inside("batch-2-nodes")).would, HasSubstr("starts one agent on each of n1, n2 with srun"));
  EXPECT_EQ(choice(inside("batch-one-node")).mode, Mode::kLocal);
  EXPECT_EQ(choice(Machine()).row, 7);
  EXPECT_THAT(choice(inside("step-4-a-node")).would, HasSubstr("this one waits for it"));
  EXPECT_THAT(choice(inside("step-bound-gpus")).would, HasSubstr("is refused"));
  Machine preset;
  preset.variables = {{"MASTER_ADDR", "head"}, {"WORLD_SIZE", "3"}, {"RANK", "2"}};
  EXPECT_EQ(choice(preset).row, 6);
  EXPECT_EQ(choice(preset).mode, Mode::kSymmetric);
}

TEST(Where, InAPbsJob) {
  Machine machine = inside("script", "pbs");
  EXPECT_EQ(choice(machine).mode, Mode::kFanOut);
  EXPECT_THAT(choice(machine).would, HasSubstr("starts one agent on each of n1.lab, n2.lab with ssh, and"));
  machine.programs["pbs_attach"] = "/opt/pbs/bin/pbs_attach";
  EXPECT_THAT(choice(machine).would, HasSubstr("with ssh and pbs_attach, and"));
  machine.programs["pbs_tmrsh"] = "/opt/pbs/bin/pbs_tmrsh";
  EXPECT_THAT(choice(machine).would, HasSubstr("with pbs_tmrsh, and"));
  const ModeChoice task = choice(inside("task_second_node", "pbs"));
  EXPECT_EQ(task.row, 6);
  EXPECT_THAT(task.would, HasSubstr("is refused: this is "));
}

TEST(Where, WithPetVariables) {
  Machine machine;
  machine.variables = {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "head"}};
  EXPECT_EQ(choice(machine).row, 6);
  EXPECT_EQ(choice(machine).mode, Mode::kSymmetric);
  EXPECT_THAT(choice(machine).would, HasSubstr("makes this node number 1 of 2, which meet on head, and"));
  machine.variables["PET_MASTER_PORT"] = "23456";
  EXPECT_THAT(choice(machine).would, HasSubstr("which meet at head, port 23456, and"));
  machine.variables = {{"PET_NNODES", "1:3"}, {"PET_RDZV_BACKEND", "c10d"}, {"PET_RDZV_ENDPOINT", "head:7"}};
  EXPECT_THAT(choice(machine).would, HasSubstr("makes this node one of 1 to 3, which meet at head, port 7, and"));
  machine.variables = {{"PET_NNODES", "1"}, {"PET_MASTER_ADDR", "127.0.0.1"}};
  EXPECT_EQ(choice(machine).row, 7);
  EXPECT_EQ(choice(machine).mode, Mode::kLocal);
  machine.variables = {{"PET_NPROC_PER_NODE", "2"}};
  EXPECT_THAT(choice(machine).would, HasSubstr("starts 2 workers on this machine alone"));
  machine.variables = {{"PET_NPROC_PER_NODE", "auto"}};
  EXPECT_THAT(choice(machine).would, HasSubstr("as many workers as PET_NPROC_PER_NODE=auto comes to"));
}

TEST(Where, ARefusalIsSaid) {
  Machine machine;
  machine.variables = {{"PET_NNODES", "2"}};
  EXPECT_EQ(choice(machine).mode, std::nullopt);
  EXPECT_THAT(choice(machine).would, HasSubstr("is refused: PET_NNODES: no rendezvous address for 2 nodes"));
  machine = inside("batch-2-nodes");
  machine.variables["PET_NNODES"] = "3";
  EXPECT_EQ(choice(machine).row, 5);
  EXPECT_THAT(choice(machine).would, HasSubstr("is refused: PET_NNODES: 3 nodes were asked for"));
  machine = inside("batch-2-nodes");
  machine.programs.erase("srun");
  EXPECT_THAT(choice(machine).would, HasSubstr("there is no srun on PATH"));
}

}  // namespace
}  // namespace muster::cli
