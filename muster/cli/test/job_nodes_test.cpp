#include <gmock/gmock.h>

#include "muster/cli/dry_run.h"
#include "muster/cli/test/plans.h"

namespace muster::cli {
namespace {

using namespace std::chrono_literals;
using namespace test;
using job::LabelKind;
using launcher::FanOut;
using launcher::Symmetric;
using rendezvous::Grow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Hosts = Symmetric::Hosts;
using StdinKind = job::StdinSpec::Kind;
using cluster::Push;

constexpr const char* kFreshId = "00000000-0000-4000-8000-0000000000ff";

// --- Nodes that are started from here -------------------------------------------------------------------------------

TEST(FanOutOptions, HostsAreTheNodes) {
  Machine machine;
  FanOut spec = fan_out(machine, {"--hosts=n1,n2:4,n[3-4]", "train.py"});
  EXPECT_THAT(names(spec.hosts), ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_EQ(spec.hosts[0].workers, std::nullopt);
  EXPECT_EQ(spec.hosts[1].workers, 4);
  EXPECT_EQ(spec.adapter->name(), "ssh");
  EXPECT_EQ(spec.membership.min_nodes, 4);
  EXPECT_EQ(spec.membership.max_nodes, 4);
  EXPECT_EQ(spec.membership.expected, 4);
  EXPECT_THAT(spec.membership.expected_hosts, ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_FALSE(spec.membership.fixed_ranks);
  EXPECT_EQ(spec.job.run_id, kFreshId);
  EXPECT_EQ(spec.job.membership, std::nullopt) << "the launcher is not a member";
  EXPECT_EQ(spec.start.ssh.ssh, "ssh");
  EXPECT_EQ(spec.start.push, Push::kAuto);
  EXPECT_THAT(spec.start.ssh.options, IsEmpty());
}

TEST(FanOutOptions, AHostfileSaysTheSame) {
  Machine machine;
  machine.texts["hosts.txt"] = "n1 slots=2\n# nothing\nn2:3\n";
  FanOut spec = fan_out(machine, {"--hostfile", "hosts.txt", "train.py"});
  EXPECT_THAT(names(spec.hosts), ElementsAre("n1", "n2"));
  EXPECT_EQ(spec.hosts[1].workers, 3);
  EXPECT_EQ(machine.error({"--hostfile=none", "train.py"}),
            "--hostfile: none: No such file or directory; give a file you may read");
  machine.texts["empty"] = "# nobody\n";
  EXPECT_THAT(machine.error({"--hostfile=empty", "train.py"}), HasSubstr("--hostfile: "));
}

TEST(FanOutOptions, SimulatedNodesHaveNames) {
  Machine machine;
  FanOut spec = fan_out(machine, {"--local-nodes=3", "--nproc-per-node=2", "train.py"});
  EXPECT_EQ(spec.adapter->name(), "local");
  EXPECT_THAT(names(spec.hosts), ElementsAre("node0", "node1", "node2"));
  EXPECT_THAT(machine.error({"--local-nodes=0", "train.py"}),
              HasSubstr("--local-nodes: 0 is out of range; write 1 to"));
  EXPECT_EQ(machine.error({"--local-nodes=2", "missing.py"}),
            "'missing.py' does not exist; check the path; relative ones start at the current directory");
}

TEST(FanOutOptions, OneWayToNameNodesOnly) {
  Machine machine;
  EXPECT_EQ(machine.error({"--hosts=n1", "--local-nodes=2", "train.py"}),
            "--hosts and --local-nodes both say which nodes there are; leave one of them out");
  EXPECT_EQ(machine.error({"--hosts=n1,n1", "train.py"}).substr(0, 9), "--hosts: ");
  EXPECT_EQ(machine.error({"--hosts=n1", "--standalone", "train.py"}),
            "--standalone is a job of this node alone, and other nodes are named; leave one of them out");
}

TEST(FanOutOptions, NodesMayBeFewerThanHosts) {
  Machine machine;
  FanOut spec = fan_out(machine, {"--hosts=n[1-4]", "--nnodes=2:3", "train.py"});
  EXPECT_EQ(spec.membership.min_nodes, 2);
  EXPECT_EQ(spec.membership.max_nodes, 3);
  EXPECT_EQ(spec.membership.expected, 4) << "the fourth is a spare";
  spec = fan_out(machine, {"--hosts=n[1-4]", "--nnodes=2", "train.py"});
  EXPECT_EQ(spec.membership.min_nodes, 2);
  EXPECT_EQ(spec.membership.max_nodes, 2);
  EXPECT_EQ(machine.error({"--hosts=n1,n2", "--nnodes=4", "train.py"}),
            "--nnodes: 4 nodes were asked for, and 2 hosts are named; leave it out to use them all");
  EXPECT_EQ(machine.error({"--hosts=n1,n2", "--nnodes=1:3", "train.py"}),
            "--nnodes: 3 nodes were asked for, and 2 hosts are named; leave it out to use them all");
}

TEST(FanOutOptions, WhatOnlyOneNodeCouldMeanIsIgnored) {
  Machine machine;
  EXPECT_EQ(notes(machine, {"--hosts=n1,n2", "--node-rank=1", "--master-addr=n1", "train.py"}),
            "--node-rank, --master-addr are ignored: the nodes are started from here and told where to meet\n");
  EXPECT_EQ(notes(machine, {"--hosts=n1,n2", "--rdzv-backend=c10d", "--rdzv-endpoint=n9.invalid:1", "train.py"}),
            "--rdzv-endpoint is ignored: the nodes are started from here and told where to meet\n");
  EXPECT_EQ(notes(machine, {"--hosts=n1,n2", "train.py"}), "");
  EXPECT_THAT(notes(machine, {"--hosts=n1,n2", "--insecure", "train.py"}), HasSubstr("fresh token"));
  EXPECT_FALSE(machine.key_made);
}

TEST(FanOutOptions, AMasterPortIsFixedWhereRank0WillBe) {
  Machine machine;
  machine.taken_port = 4242;
  EXPECT_EQ(fan_out(machine, {"--hosts=n1,n2", "--master-port=4242", "train.py"}).job.master_port, 4242)
      << "that it is taken here says nothing";
}

TEST(FanOutOptions, SshIsSteered) {
  Machine machine;
  machine.programs["/opt/ssh"] = "/opt/ssh";
  FanOut spec = fan_out(machine, {"--hosts=n1", "--ssh=/opt/ssh", "--ssh-option=ProxyJump=a,b", "--ssh-option",
                                  "Port=7", "--push-binary=never", "train.py"});
  EXPECT_EQ(spec.start.ssh.ssh, "/opt/ssh");
  EXPECT_THAT(spec.start.ssh.options, ElementsAre("ProxyJump=a,b", "Port=7"));
  EXPECT_EQ(spec.start.push, Push::kNever);
  EXPECT_EQ(fan_out(machine, {"--hosts=n1", "--push-binary=always", "train.py"}).start.push, Push::kAlways);
  EXPECT_THAT(machine.error({"--hosts=n1", "--push-binary=x", "train.py"}), HasSubstr("choose auto, always, never"));
}

TEST(FanOutOptions, WhatThisMachineHasSaysNothingAboutOthers) {
  Machine machine;
  machine.python.reset();
  FanOut spec = fan_out(machine, {"--hosts=n1", "--nproc-per-node=gpu", "-r", "7:3", "elsewhere.py", "x"});
  EXPECT_EQ(spec.job.command.entrypoint, "elsewhere.py");
  EXPECT_THAT(spec.job.command.argv, ElementsAre("elsewhere.py", "x"));
  EXPECT_THAT(machine.error({"--hosts=n1", "--nproc-per-node=x", "train.py"}),
              HasSubstr("'x' is not a number of workers"));
  EXPECT_THAT(machine.error({"--hosts=n1", "-r", "x", "train.py"}), HasSubstr("selects no streams"));
}

TEST(FanOutOptions, TheEnvironmentIsSentButForWhatBelongsToAMachine) {
  Machine machine;
  machine.variables = {{"A", "1"}, {"TMPDIR", "/scratch"}, {"MUSTER_TOKEN", "secret"}};
  FanOut spec = fan_out(machine, {"--hosts=n1", "train.py"});
  EXPECT_THAT(spec.description.environment, ElementsAre(testing::Pair("A", "1")));
  EXPECT_EQ(variable(spec.job, "MUSTER_TOKEN"), std::nullopt);
  EXPECT_EQ(variable(spec.job, "OMP_NUM_THREADS"), std::nullopt);
  EXPECT_EQ(spec.description.token, "") << "made when it starts";
  spec = fan_out(machine, {"--local-nodes=2", "train.py"});
  EXPECT_THAT(spec.description.environment, ElementsAre(testing::Pair("A", "1"), testing::Pair("TMPDIR", "/scratch")));
}

TEST(FanOutOptions, HowItRuns) {
  Machine machine;
  FanOut spec = fan_out(machine, {"--hosts=n1,n2", "train.py"});
  EXPECT_EQ(spec.membership.join_timeout, 600s);
  EXPECT_EQ(spec.membership.lease, 10s);
  EXPECT_EQ(spec.membership.grow, Grow::kNow);
  EXPECT_EQ(spec.membership.crash_loop, 3);
  EXPECT_EQ(spec.membership.max_restarts, 0);
  EXPECT_EQ(spec.job.output.label, LabelKind::kHostRank);
  EXPECT_EQ(spec.job.stdin_spec.kind, StdinKind::kNone);
  spec =
      fan_out(machine, {"--hosts=n1,n2", "--join-timeout=30", "--lease=2.5", "--grow=never", "--crash-loop=0",
                        "--max-restarts=7", "--port-range=4000-4010", "--interface=eth0", "--label=rank", "train.py"});
  EXPECT_EQ(spec.membership.join_timeout, 30s);
  EXPECT_EQ(spec.membership.lease, 2500ms);
  EXPECT_EQ(spec.membership.grow, Grow::kNever);
  EXPECT_EQ(spec.membership.crash_loop, 0);
  EXPECT_EQ(spec.membership.max_restarts, 7);
  EXPECT_EQ(spec.ports.first, 4000);
  EXPECT_EQ(spec.ports.last, 4010);
  EXPECT_EQ(spec.interface, "eth0");
  EXPECT_EQ(spec.job.output.label, LabelKind::kRank);
  EXPECT_EQ(fan_out(machine, {"--hosts=n1", "--grow=restart", "train.py"}).membership.grow, Grow::kRestart);
  EXPECT_EQ(fan_out(machine, {"--hosts=n1", "--rdzv-conf=join_timeout=7", "train.py"}).membership.join_timeout, 7s);
}

TEST(FanOutOptions, BadValues) {
  Machine machine;
  auto error = [&](const std::string& word) { return machine.error({"--hosts=n1", word, "train.py"}); };
  EXPECT_EQ(error("--lease=1.9"), "--lease: 1.9 is out of range; write 2 or more seconds");
  EXPECT_EQ(error("--lease=nan"), "--lease: nan is out of range; write 2 or more seconds");
  EXPECT_EQ(error("--join-timeout=inf"), "--join-timeout: inf is out of range; write 1 or more seconds");
  EXPECT_THAT(error("--crash-loop=-1"), HasSubstr("--crash-loop: -1 is out of range"));
  EXPECT_THAT(error("--grow=later"), HasSubstr("choose now, restart, never"));
  EXPECT_EQ(error("--port-range=9-8"),
            "--port-range: '9-8' is not a range of ports; write A-B with numbers from 1 to 65535");
  EXPECT_EQ(error("--interface=eth7"), "--interface: there is no eth7 here");
  EXPECT_EQ(machine.error({"--hosts=localhost,10.9.9.9", "--interface=lo", "train.py"}),
            "--interface: lo is loopback, where 10.9.9.9 cannot reach this machine; name the interface of the network "
            "that they share");
  EXPECT_EQ(error("--rdzv-id="), "--rdzv-id: it is empty; give all nodes the same name, or leave it out");
  EXPECT_EQ(error("--stdin=0"),
            "--stdin: workers on several nodes cannot read what is typed or piped in here; leave it out, and let them "
            "read a file");
  EXPECT_EQ(error("--stdin=none"), "accepted");
}

TEST(FanOutOptions, ManyNodesNeedManyDescriptors) {
  Machine machine;
  machine.descriptor_limit = 1024;
  EXPECT_THAT(machine.error({"--hosts=n[1-1000]", "train.py"}),
              HasSubstr("1000 nodes need 8064 file descriptors and this process may open 1024"));
  EXPECT_EQ(machine.error({"--hosts=n[1-1000]", "--dry-run", "train.py"}), "accepted");
}

TEST(FanOutOptions, TorchrunCanDoItToo) {
  Machine machine;
  FanOut spec = fan_out(machine, {"--hosts=n1,n2", "--nproc-per-node=2", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(machine.plan(Verb::kTorchrun, {"--hosts=n1", "x.py"})->for_nodes.flavor, job::Flavor::kTorchrun);
  EXPECT_EQ(spec.membership.crash_loop, 0);
  EXPECT_EQ(spec.membership.max_nodes, 2);
  EXPECT_EQ(spec.job.run_id, kFreshId);
  EXPECT_EQ(spec.job.stdin_spec.kind, StdinKind::kNone);
}

// --- An agent -------------------------------------------------------------------------------------------------------

Assignment assignment() {
  Assignment all;
  all.token = job::Token::derive("x", "y");
  all.endpoints = {"10.0.0.1:4711"};
  all.host = "n2";
  all.position = 1;
  return all;
}

TEST(MemberOptions, TheLauncherHasDecided) {
  Machine machine;
  machine.variables = {{"MUSTER_TOKEN", "secret"}};
  auto plan =
      machine.plan_as_member(Verb::kRun,
                             {"--rdzv-id=the-id", "--hostfile=not-here", "--nnodes=2:3", "--node-rank=7",
                              "--nproc-per-node=2", "--master-port=4000", "--report=/proc/not-here",
                              "--interface=10.0.0.0/8", "--port-range=5000-5001", "--join-timeout=9", "train.py"},
                             assignment());
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_TRUE(std::holds_alternative<job::JobSpec>(plan->start));
  EXPECT_THAT(plan->notes, IsEmpty());
  const job::JobSpec& job = plan->job();
  ASSERT_TRUE(job.membership);
  EXPECT_EQ(job.host, "n2");
  EXPECT_EQ(job.run_id, "the-id");
  EXPECT_EQ(job.workers, 2);
  EXPECT_EQ(job.master_port, 4000);
  EXPECT_EQ(job.report_file, "");
  EXPECT_EQ(job.output.label, LabelKind::kHostRank);
  EXPECT_EQ(job.stdin_spec.kind, StdinKind::kNone);
  EXPECT_EQ(variable(job, "MUSTER_TOKEN"), std::nullopt);
  EXPECT_EQ(variable(job, "OMP_NUM_THREADS"), "8") << "of this machine's cores";
  EXPECT_EQ(job.membership->token, assignment().token);
  EXPECT_THAT(job.membership->coordinators, ElementsAre("10.0.0.1:4711"));
  EXPECT_EQ(job.membership->position, 1);
  EXPECT_EQ(job.membership->rank, std::nullopt);
  EXPECT_EQ(job.membership->min_nodes, 0);
  EXPECT_TRUE(job.membership->output_to_launcher);
  EXPECT_FALSE(job.membership->store_on_coordinator_port);
  EXPECT_EQ(job.membership->join_timeout, 9s);
  EXPECT_EQ(job.membership->interface, "10.0.0.0/8");
  EXPECT_EQ(job.membership->ports.first, 5000);
}

TEST(MemberOptions, WorkersOfTheHostBeatThoseOfTheCommandLine) {
  Machine machine;
  machine.gpus = {4, "nvidia-smi", {}, ""};
  Assignment mine = assignment();
  EXPECT_EQ(machine.plan_as_member(Verb::kRun, {"train.py"}, mine)->job().workers, 4) << "this machine's GPUs";
  mine.workers = 3;
  EXPECT_EQ(machine.plan_as_member(Verb::kRun, {"--nproc-per-node=2", "train.py"}, mine)->job().workers, 3);
}

TEST(MemberOptions, SimulatedNodesShareTheCores) {
  Machine machine;  // of 16
  auto threads = [&](const std::vector<std::string>& arguments) {
    return variable(machine.plan_as_member(Verb::kRun, arguments, assignment())->job(), "OMP_NUM_THREADS");
  };
  EXPECT_EQ(threads({"--local-nodes=2", "train.py"}), "8");
  EXPECT_EQ(threads({"--local-nodes=2", "--nproc-per-node=4", "train.py"}), "2");
  EXPECT_EQ(threads({"--local-nodes=100", "train.py"}), "1");
  EXPECT_EQ(threads({"--local-nodes=4", "--nnodes=1:2", "train.py"}), "8") << "two of them are spares";
}

TEST(MemberOptions, SimulatedNodesShareTheGpus) {
  Machine machine;
  machine.gpus = {4, "CUDA_VISIBLE_DEVICES=0,1,2,3", {"0", "1", "2", "3"}, "CUDA_VISIBLE_DEVICES"};
  Assignment second = assignment();
  second.position = 1;
  auto plan = [&](const std::vector<std::string>& arguments) {
    return machine.plan_as_member(Verb::kRun, arguments, second)->job();
  };
  EXPECT_EQ(plan({"--local-nodes=2", "train.py"}).workers, 2);
  EXPECT_EQ(variable(plan({"--local-nodes=2", "train.py"}), "CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(plan({"--local-nodes=2", "--nproc-per-node=gpu", "train.py"}).workers, 2);
  EXPECT_EQ(plan({"train.py"}).workers, 4) << "a machine of its own";
  EXPECT_EQ(fan_out(machine, {"--local-nodes=2", "train.py"}).job.workers, 2);
  EXPECT_NE(variable(plan({"--local-nodes=2", "--nproc-per-node=4", "train.py"}), "CUDA_VISIBLE_DEVICES"), "2,3");
}

TEST(MemberOptions, OfManyMayServeThemAllAndWorkersKeepTheirLimit) {
  Machine machine;
  machine.descriptor_limit = 1 << 20;
  EXPECT_EQ(machine.plan_as_member(Verb::kRun, {"train.py"}, assignment())->job().open_files, 1024U);
}

TEST(MemberOptions, ErrorsAreThoseOfThisMachine) {
  Machine machine;
  EXPECT_EQ(exit_code(machine.plan_as_member(Verb::kRun, {"missing.py"}, assignment()).error()), 127);
}

TEST(MemberOptions, TorchrunsWorkersWriteToTheLauncherWithANameInFront) {
  Machine machine;
  auto plan = machine.plan_as_member(Verb::kTorchrun, {"--nproc-per-node=2", "train.py"}, assignment());
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->job().output.inherit_plain_streams);
  EXPECT_EQ(plan->job().output.prefix_template, "");
  EXPECT_EQ(plan->job().output.label, LabelKind::kHostRank);
  EXPECT_EQ(plan->job().stdin_spec.kind, StdinKind::kNone);
  EXPECT_EQ(variable(plan->job(), "OMP_NUM_THREADS"), "1");
  EXPECT_THAT(plan->notes, IsEmpty()) << "the launcher has said it";
  EXPECT_THAT(notes(machine, {"--hosts=n1", "--nproc-per-node=2", "train.py"}, Verb::kTorchrun),
              HasSubstr("Setting OMP_NUM_THREADS"));
}

// --- Nodes that each run their own muster ---------------------------------------------------------------------------

TEST(SymmetricOptions, StaticNodesAreNumbered) {
  Machine machine;
  machine.key = "k";
  Symmetric first = symmetric(machine, {"--nnodes=2", "--node-rank=0", "--master-addr=10.0.0.1", "train.py"});
  EXPECT_EQ(first.host, "10.0.0.1");
  EXPECT_EQ(first.port, 29500);
  EXPECT_EQ(first.candidates.size(), 16u) << "nobody has said which port";
  EXPECT_EQ(first.hosts, Hosts::kYes);
  EXPECT_TRUE(first.membership.fixed_ranks);
  EXPECT_EQ(first.membership.min_nodes, 2);
  EXPECT_EQ(first.membership.max_nodes, 2);
  EXPECT_EQ(first.membership.expected, 0);
  EXPECT_EQ(first.job.rdzv_backend, "static");
  EXPECT_EQ(first.job.run_id, "none");
  EXPECT_EQ(first.job.master_addr, "10.0.0.1");
  ASSERT_TRUE(first.job.membership);
  EXPECT_EQ(first.job.membership->rank, 0);
  EXPECT_EQ(first.job.membership->min_nodes, 2);
  EXPECT_EQ(first.job.membership->coordinators.size(), 16u);
  EXPECT_EQ(first.job.membership->coordinators.front(), "10.0.0.1:29500");
  EXPECT_THAT(
      symmetric(machine, {"--nnodes=2", "--master-addr=10.0.0.1", "--node-rank=1", "--master-port=7", "train.py"})
          .job.membership->coordinators,
      ElementsAre("10.0.0.1:7"));
  EXPECT_TRUE(first.job.membership->store_on_coordinator_port);
  EXPECT_FALSE(first.job.membership->output_to_launcher);
  EXPECT_EQ(first.job.output.label, LabelKind::kHostRank);
  EXPECT_EQ(first.job.stdin_spec.kind, StdinKind::kNone);

  Symmetric second =
      symmetric(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=7", "train.py"});
  EXPECT_EQ(second.hosts, Hosts::kNo);
  EXPECT_EQ(second.port, 7);
  EXPECT_EQ(second.job.membership->rank, 1);
}

TEST(SymmetricOptions, StaticTakesAnEndpointToo) {
  Machine machine;
  Symmetric spec = symmetric(machine, {"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=[fd00::1]:4000", "train.py"});
  EXPECT_EQ(spec.host, "fd00::1");
  EXPECT_THAT(spec.job.membership->coordinators, ElementsAre("[fd00::1]:4000"));
  EXPECT_EQ(machine.error({"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=h", "train.py"}),
            "--rdzv-endpoint: 'h' has no port that all nodes know; write h:29500, or use --rdzv-backend c10d");
  EXPECT_THAT(machine.error({"--nnodes=2", "--node-rank=1", "--master-addr=h", "--master-port=0", "train.py"}),
              HasSubstr("--master-port: 0 is out of range"));
}

TEST(SymmetricOptions, ARankOutOfRangeOrForgotten) {
  Machine machine;
  EXPECT_EQ(machine.error({"--nnodes=2", "--node-rank=2", "--master-addr=h", "train.py"}),
            "--node-rank: there is no node 2 in a job of 2 nodes; number them from 0 to 1");
  EXPECT_THAT(machine.error({"--nnodes=2", "--node-rank=-1", "--master-addr=h", "train.py"}),
              HasSubstr("there is no node -1"));
  EXPECT_EQ(machine.error({"--nnodes=2", "--master-addr=10.9.9.9", "train.py"}),
            "--node-rank: the rank of this node is not known; it is not the first, which is 10.9.9.9; number them from "
            "0 to 1, or "
            "use --rdzv-backend c10d, which does it by itself");
  EXPECT_EQ(symmetric(machine, {"--nnodes=2", "--master-addr=mine", "train.py"}).job.membership->rank, 0)
      << "this machine is the one that is named";
  EXPECT_EQ(symmetric(machine, {"--nnodes=2", "--master-addr=10.9.9.9", "train.py"}, Verb::kTorchrun).hosts,
            Hosts::kYes)
      << "torchrun believes its default";
  machine.variables["PET_NODE_RANK"] = "1";
  EXPECT_EQ(symmetric(machine, {"--nnodes=2", "--master-addr=10.9.9.9", "train.py"}).job.membership->rank, 1);
}

TEST(SymmetricOptions, AFirstNodeThatIsNotWhereTheFirstOneIs) {
  Machine machine;
  const std::vector<std::string> copied = {"--nnodes=2", "--node-rank=0", "--master-addr=10.9.9.9", "train.py"};
  const std::string doubt =
      "this node hosts the job as node rank 0, although 10.9.9.9 is another machine; if another node says "
      "--node-rank 0 too, give this one its own --node-rank";
  Symmetric spec = symmetric(machine, copied);
  EXPECT_EQ(spec.hosts, Hosts::kYes) << "it may be an address by which others reach this machine";
  EXPECT_EQ(spec.doubt, doubt);
  EXPECT_EQ(spec.membership.way_in, doubt + "; else start the same command there, with its own --node-rank");
  EXPECT_EQ(notes(machine, copied), doubt + "\n");
  for (const char* known : {"mine", "nowhere.invalid"}) {
    const std::vector<std::string> plain = {"--nnodes=2", "--node-rank=0", "--master-addr", known, "train.py"};
    EXPECT_EQ(symmetric(machine, plain).doubt, "") << known;
    EXPECT_EQ(notes(machine, plain), "") << known;
  }
  EXPECT_EQ(symmetric(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=10.9.9.9", "train.py"}).doubt, "");
}

TEST(SymmetricOptions, NodesThatDoNotKnowWhereToMeet) {
  Machine machine;
  EXPECT_EQ(
      machine.error({"--nnodes=2", "--node-rank=1", "train.py"}),
      "--nnodes: no rendezvous address for 2 nodes; give --master-addr HOST on every node (localhost: all are on this "
      "machine), or start them all from here with --hosts");
  EXPECT_THAT(machine.error({"--nnodes=2", "--rdzv-backend=c10d", "train.py"}), HasSubstr("give --rdzv-endpoint HOST"));
  // torchrun meets on this machine.
  Symmetric spec = symmetric(machine, {"--nnodes=2", "--node-rank=1", "train.py"}, Verb::kTorchrun);
  EXPECT_THAT(spec.job.membership->coordinators, ElementsAre("127.0.0.1:29500"));
  EXPECT_THAT(notes(machine, {"--nnodes=2", "--node-rank=1", "train.py"}, Verb::kTorchrun),
              HasSubstr("no --master-addr: only nodes on this machine can meet here"));
  spec = symmetric(machine, {"--nnodes=2", "--rdzv-backend=c10d", "train.py"}, Verb::kTorchrun);
  EXPECT_THAT(spec.job.membership->coordinators, ElementsAre("localhost:29400"));
  EXPECT_EQ(spec.hosts, Hosts::kGuess);
}

TEST(SymmetricOptions, C10dNodesNameAnEndpoint) {
  Machine machine;
  Symmetric spec = symmetric(
      machine, {"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=10.9.9.9", "--rdzv-id=x", "train.py"});
  EXPECT_EQ(spec.port, 29400);
  EXPECT_EQ(spec.hosts, Hosts::kNo);
  EXPECT_FALSE(spec.membership.fixed_ranks);
  EXPECT_EQ(spec.membership.min_nodes, 2);
  EXPECT_EQ(spec.membership.max_nodes, 4);
  EXPECT_EQ(spec.job.run_id, "x");
  EXPECT_EQ(spec.job.rdzv_backend, "c10d");
  EXPECT_EQ(spec.job.master_addr, "");
  EXPECT_EQ(spec.job.master_port, 0);
  EXPECT_EQ(spec.job.membership->rank, std::nullopt);
  EXPECT_FALSE(spec.job.membership->store_on_coordinator_port);
  spec = symmetric(machine, {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=mine:7", "train.py"});
  EXPECT_EQ(spec.hosts, Hosts::kGuess);
  EXPECT_EQ(spec.port, 7);
  spec = symmetric(machine, {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h.invalid", "train.py"});
  EXPECT_EQ(spec.hosts, Hosts::kNo) << "a name that nobody knows is not ours";
  EXPECT_EQ(notes(machine, {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h.invalid", "train.py"}),
            "this node does not host the job: cannot resolve 'h.invalid'; if no node hosts it, "
            "give one of them --rdzv-conf is_host=1\n");
  EXPECT_EQ(machine.error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:0", "train.py"}),
            "--rdzv-endpoint: 'h:0' has no port that all nodes know; write h, or h:29400");
}

TEST(SymmetricOptions, WhoHostsCanBeSaid) {
  Machine machine;
  auto hosts = [&](const std::string& conf, const std::string& endpoint) {
    return symmetric(machine, {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint,
                               "--rdzv-conf=" + conf, "train.py"})
        .hosts;
  };
  EXPECT_EQ(hosts("is_host=1", "10.9.9.9"), Hosts::kYes);
  EXPECT_EQ(hosts("is_host=True", "10.9.9.9"), Hosts::kYes);
  EXPECT_EQ(hosts("is_host=no", "mine"), Hosts::kNo);
  EXPECT_EQ(hosts("is_host=0", "mine"), Hosts::kNo);
  EXPECT_THAT(machine.error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--rdzv-conf=store_type=file",
                             "train.py"}),
              HasSubstr("store_type=file is not supported"));
}

TEST(SymmetricOptions, ARangeIsElasticUnlessNodesAreNumbered) {
  Machine machine;
  EXPECT_EQ(symmetric(machine, {"--nnodes=2:4", "--rdzv-endpoint=h", "train.py"}).job.rdzv_backend, "c10d");
  EXPECT_EQ(symmetric(machine, {"--nnodes=1:4", "--rdzv-endpoint=h", "train.py"}).membership.min_nodes, 1);
  Symmetric spec = symmetric(machine, {"--nnodes=2:4", "--node-rank=3", "--rdzv-endpoint=h:1", "train.py"});
  EXPECT_EQ(spec.job.rdzv_backend, "static");
  EXPECT_EQ(spec.membership.min_nodes, 4) << "as torchrun: the larger one";
  spec = symmetric(machine, {"--nnodes=2:4", "--rdzv-backend=static", "--rdzv-endpoint=mine:1", "train.py"});
  EXPECT_EQ(spec.membership.min_nodes, 4);
  spec = symmetric(machine, {"--nnodes=1:4", "--master-addr=h", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(spec.membership.min_nodes, 4);
  EXPECT_TRUE(spec.membership.fixed_ranks);
}

TEST(SymmetricOptions, OneOfManyWithoutAPlaceToMeetStaysAlone) {
  Machine machine;
  for (const Words& words :
       {Words{"--nnodes=1:4", "train.py"}, Words{"--nnodes=1:4", "--rdzv-backend=c10d", "train.py"},
        Words{"--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "train.py"},
        Words{"--nnodes=1:4", "--standalone", "train.py"}}) {
    auto plan = machine.plan(Verb::kRun, words);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE(std::holds_alternative<job::JobSpec>(plan->start));
    EXPECT_EQ(plan->job().membership, std::nullopt);
    ASSERT_THAT(plan->notes, SizeIs(1));
    EXPECT_EQ(plan->notes[0].text,
              "--nnodes 1:4: starting on this node alone; for more give --rdzv-endpoint HOST on every node, or --hosts "
              "here");
  }
  EXPECT_EQ(machine.error({"--nnodes=1:4", "--rdzv-backend=c10d", "train.py"}, Verb::kTorchrun), "accepted");
  EXPECT_EQ(machine.error({"--nnodes=2", "--standalone", "train.py"}),
            "--standalone is a job of this node alone, and --nnodes asks for 2; leave one of them out");
  EXPECT_EQ(machine.error({"--nnodes=3:2", "train.py"}),
            "--nnodes: the minimum of '3:2' is above its maximum; write MIN:MAX");
}

TEST(SymmetricOptions, C10dIgnoresTheNodeRank) {
  Machine machine;
  const Words words = {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--node-rank=7", "train.py"};
  EXPECT_EQ(notes(machine, words), "--node-rank is ignored: c10d gives ranks by the order of arrival\n");
  EXPECT_EQ(symmetric(machine, words).job.membership->rank, std::nullopt);
}

TEST(SymmetricOptions, TimesOfTorchrunKeepTheirMeaning) {
  Machine machine;
  auto options = [&](Words words, Verb verb) {
    words.insert(words.begin(), {"--nnodes=2", "--rdzv-endpoint=mine:1"});
    words.emplace_back("train.py");
    return symmetric(machine, words, verb).membership;
  };
  const std::string c10d = "--rdzv-backend=c10d";
  EXPECT_EQ(options({}, Verb::kRun).join_timeout, 600s);
  EXPECT_EQ(options({}, Verb::kTorchrun).join_timeout, 900s);
  EXPECT_EQ(options({c10d}, Verb::kTorchrun).join_timeout, 600s);
  EXPECT_EQ(options({"--rdzv-conf=timeout=5"}, Verb::kRun).join_timeout, 5s);
  EXPECT_EQ(options({c10d, "--rdzv-conf=timeout=5"}, Verb::kRun).join_timeout, 600s) << "c10d does not know it";
  EXPECT_EQ(options({c10d, "--rdzv-conf=join_timeout=5"}, Verb::kRun).join_timeout, 5s);
  EXPECT_EQ(options({c10d, "--join-timeout=8", "--rdzv-conf=join_timeout=5"}, Verb::kRun).join_timeout, 8s);
  const std::string quoted = "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'";
  EXPECT_EQ(options({c10d, quoted}, Verb::kTorchrun).join_timeout, 600s) << "torchrun's key has the quote in it";
  EXPECT_EQ(options({c10d, quoted}, Verb::kTorchrun).last_call, 1s);
  EXPECT_EQ(options({c10d, quoted}, Verb::kRun).join_timeout, 5s) << "the quotes were meant for a shell";
  EXPECT_EQ(options({c10d, "--rdzv-conf=timeout=x"}, Verb::kTorchrun).join_timeout, 600s) << "another backend's key";
  EXPECT_EQ(options({c10d}, Verb::kRun).last_call, 3s);
  EXPECT_EQ(options({c10d}, Verb::kTorchrun).last_call, 30s);
  EXPECT_EQ(options({c10d, "--rdzv-conf=last_call_timeout=1"}, Verb::kTorchrun).last_call, 1s);
  EXPECT_EQ(options({c10d}, Verb::kTorchrun).lease, 10s);
  EXPECT_EQ(options({c10d, "--rdzv-conf=keep_alive_interval=2"}, Verb::kTorchrun).lease, 6s);
  EXPECT_EQ(options({c10d, "--rdzv-conf=keep_alive_interval=2,keep_alive_max_attempt=5"}, Verb::kRun).lease, 10s);
  EXPECT_EQ(options({c10d, "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=1"}, Verb::kRun).lease, 2s);
  EXPECT_EQ(options({c10d, "--lease=4", "--rdzv-conf=keep_alive_interval=2"}, Verb::kRun).lease, 4s);
  const std::string longest = "--rdzv-conf=keep_alive_interval=100000000,keep_alive_max_attempt=100000";
  EXPECT_EQ(options({c10d, longest}, Verb::kRun).lease, std::chrono::hours(24 * 365));
  EXPECT_EQ(options({c10d, "--rdzv-conf=read_timeout=5,close_timeout=3,heartbeat_timeout=2"}, Verb::kRun).lease, 10s);
  EXPECT_EQ(options({}, Verb::kRun).crash_loop, 3);
  EXPECT_EQ(options({}, Verb::kTorchrun).crash_loop, 0);
  EXPECT_EQ(options({}, Verb::kLaunch).crash_loop, 0);
  EXPECT_EQ(options({"--crash-loop=2"}, Verb::kTorchrun).crash_loop, 2);
  EXPECT_EQ(options({"--max-restarts=4"}, Verb::kTorchrun).max_restarts, 4);
  EXPECT_THAT(
      machine.error({"--nnodes=2", "--rdzv-endpoint=mine:1", "--rdzv-conf=timeout=x", "train.py"}, Verb::kTorchrun),
      HasSubstr("--rdzv-conf: 'x' is not a value for timeout"));
}

TEST(SymmetricOptions, WorkersThatHostTheStoreNeedAPortOfTheirOwn) {
  Machine machine;
  Symmetric spec = symmetric(machine, {"--nnodes=2", "--node-rank=0", "--master-addr=h", "--store=worker", "train.py"});
  EXPECT_FALSE(spec.job.membership->store_on_coordinator_port);
}

TEST(SymmetricOptions, TorchrunsConsoleStaysTorchruns) {
  Machine machine;
  Symmetric spec = symmetric(machine, {"--nnodes=2", "--node-rank=0", "--master-addr=h", "train.py"}, Verb::kTorchrun);
  EXPECT_EQ(spec.job.stdin_spec.kind, StdinKind::kInherit);
  EXPECT_TRUE(spec.job.output.inherit_plain_streams);
  EXPECT_EQ(spec.job.output.prefix_template, "[${role_name}${local_rank}]:");
}

// --- The secret -----------------------------------------------------------------------------------------------------

const Words kNode = {"--nnodes=2", "--node-rank=0", "--master-addr=h", "train.py"};

job::Token token(const Machine& machine, Words words = {}, Verb verb = Verb::kRun) {
  words.insert(words.end(), kNode.begin(), kNode.end());
  return symmetric(machine, words, verb).job.membership->token;
}

bool open_to_all(const Machine& machine, Words words = {}, Verb verb = Verb::kRun) {
  words.insert(words.end(), kNode.begin(), kNode.end());
  return symmetric(machine, words, verb).job.membership->open_to_all;
}

TEST(SymmetricToken, ComesFromTheFileTheVariableOrTheKey) {
  Machine machine;
  machine.texts["f"] = "from the file\n";
  machine.key = "the key";
  const job::Token by_key = token(machine);
  machine.variables["MUSTER_TOKEN"] = "from the variable";
  const job::Token by_variable = token(machine);
  const job::Token by_file = token(machine, {"--token-file=f"});
  EXPECT_FALSE(by_key == by_variable);
  EXPECT_FALSE(by_file == by_variable);
  EXPECT_FALSE(open_to_all(machine));
  EXPECT_FALSE(open_to_all(machine, {"--token-file=f"}));
  machine.variables["MUSTER_TOKEN"] = " from the file ";
  EXPECT_EQ(token(machine), by_file) << "white space around it does not count";
  EXPECT_TRUE(open_to_all(machine, {"--insecure"})) << "the command line beats a variable";
}

TEST(SymmetricToken, IsTheSameOnEveryNodeOfAJobAndOfNoOther) {
  Machine machine;
  machine.key = "k";
  auto of = [&](const Words& words) { return symmetric(machine, words).job.membership->token; };
  const job::Token first = of({"--nnodes=2", "--node-rank=0", "--master-addr=localhost", "train.py"});
  EXPECT_EQ(of({"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "train.py"}), first);
  EXPECT_FALSE(of({"--nnodes=2", "--node-rank=1", "--master-addr=h", "--master-port=7", "train.py"}) == first);
  EXPECT_FALSE(of({"--nnodes=2", "--node-rank=1", "--master-addr=h", "--rdzv-id=x", "train.py"}) == first);
}

// The same user, key, port and id: only the scheduler's job tells them apart.
TEST(SymmetricJob, IsTheSchedulersAlsoWhereAnEndpointIsGiven) {
  Machine machine;
  machine.key = "k";
  auto job = [&](Words words, Verb verb = Verb::kRun) {
    words.insert(words.end(), kNode.begin(), kNode.end());
    return symmetric(machine, words, verb).job.membership->token.job();
  };
  EXPECT_EQ(job({}), "");
  machine.variables["PBS_JOBID"] = "12[3].server";
  EXPECT_EQ(job({}), "PBS job 12[3].server");
  EXPECT_EQ(job({"--insecure"}), "PBS job 12[3].server");
  EXPECT_EQ(job({}, Verb::kTorchrun), "PBS job 12[3].server");
  machine.variables.erase("PBS_JOBID");
  machine.texts["/proc/self/cgroup"] = "0::/system.slice/slurmstepd.scope/job_7/step_0\n";
  EXPECT_EQ(job({}), "Slurm job 7") << "a container that passes no variables";
}

TEST(SymmetricJob, ASecretOfTheirOwnMakesMachinesOfSeveralSchedulersOne) {
  Machine machine;
  machine.variables["MUSTER_TOKEN"] = std::string(64, 'a');
  EXPECT_EQ(symmetric(machine, kNode).job.membership->token.job(), job::Token::kAnyJob);
  machine.variables["SLURM_JOB_ID"] = "41";
  machine.variables["SLURM_JOB_NODELIST"] = "n1";
  Words words = {"--mode=symmetric"};
  words.insert(words.end(), kNode.begin(), kNode.end());
  EXPECT_EQ(symmetric(machine, words).job.membership->token.job(), job::Token::kAnyJob) << "2 nodes, it has 1";
  machine.variables["SLURM_JOB_NODELIST"] = "n[1-2]";
  EXPECT_EQ(symmetric(machine, words).job.membership->token.job(), "Slurm job 41") << "it has all that the job needs";
}

TEST(SymmetricJob, ASecretIsNotEnoughIfTheSizeOfTheAllocationIsNotKnown) {
  Machine machine;
  machine.variables["MUSTER_TOKEN"] = std::string(64, 'a');
  auto job = [&] { return symmetric(machine, kNode).job.membership->token.job(); };
  machine.texts["/proc/self/cgroup"] = "0::/system.slice/slurmstepd.scope/job_7/step_0\n";
  EXPECT_EQ(job(), "Slurm job 7") << "a container that passes no variables";
  machine.variables["PBS_JOBID"] = "12.server";
  EXPECT_EQ(job(), "PBS job 12.server") << "a container that passes the job's name alone";
  machine.variables["PBS_ENVIRONMENT"] = "PBS_BATCH";
  machine.variables["PBS_NODENUM"] = "1";
  machine.variables["PBS_TASKNUM"] = "20000001";
  machine.variables["PBS_NODEFILE"] = "/var/spool/pbs/aux/12.server";
  EXPECT_EQ(job(), "PBS job 12.server") << "a task on a node that does not have the nodefile";
}

TEST(SymmetricJob, ANodeMustTakePartUnlessSparesAreDeclared) {
  Machine machine;
  auto must = [&](const Words& words, Verb verb = Verb::kRun) {
    return symmetric(machine, words, verb).job.membership->must_take_part;
  };
  auto c10d = [](const std::string& nodes) {
    return Words{"--nnodes=" + nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=h:3000", "train.py"};
  };
  EXPECT_TRUE(must(c10d("2")));
  EXPECT_TRUE(must(kNode));
  EXPECT_FALSE(must(c10d("2:2")));
  EXPECT_FALSE(must(c10d("1:2")));
  EXPECT_FALSE(must(c10d("2"), Verb::kTorchrun));
  Words words = c10d("2");
  words.insert(words.begin(), "--mode=symmetric");
  machine.variables["SLURM_JOB_ID"] = "41";
  machine.variables["SLURM_JOB_NODELIST"] = "n[1-2]";
  EXPECT_TRUE(must(words));
  machine.variables["SLURM_JOB_NODELIST"] = "n[1-3]";
  EXPECT_FALSE(must(words)) << "the third node of the allocation is a spare";
}

TEST(SymmetricToken, AKeyIsMadeByRunAlone) {
  Machine machine;
  EXPECT_FALSE(open_to_all(machine));
  EXPECT_TRUE(machine.key_made);
  machine.key_made = false;
  EXPECT_TRUE(open_to_all(machine, {}, Verb::kTorchrun));
  EXPECT_FALSE(machine.key_made);
  EXPECT_THAT(notes(machine, kNode, Verb::kTorchrun),
              HasSubstr("as with torchrun, every process that reaches the port can join"));
  machine.variables["MUSTER_TOKEN"] = "x";
  EXPECT_FALSE(open_to_all(machine, {}, Verb::kTorchrun));
  EXPECT_THAT(notes(machine, kNode, Verb::kTorchrun), Not(HasSubstr("can join")));
}

TEST(SymmetricToken, ADryRunMakesNoKey) {
  Machine machine;
  token(machine, {"--dry-run"});
  EXPECT_FALSE(machine.key_made);
}

TEST(SymmetricToken, NeverReachesTheWorkers) {
  Machine machine;
  machine.variables["MUSTER_TOKEN"] = "secret";
  EXPECT_EQ(variable(symmetric(machine, kNode).job, "MUSTER_TOKEN"), std::nullopt);
  EXPECT_EQ(variable(machine.run({"train.py"}), "MUSTER_TOKEN"), std::nullopt);
}

TEST(SymmetricToken, BadFiles) {
  Machine machine;
  machine.texts["empty"] = " \n";
  auto error = [&](Words words) {
    words.insert(words.end(), kNode.begin(), kNode.end());
    return machine.error(words);
  };
  EXPECT_EQ(error({"--token-file=none"}), "--token-file: 'none' cannot be read: No such file or directory");
  EXPECT_EQ(error({"--token-file=empty", "--insecure"}),
            "--insecure and --token-file exclude each other; leave one of them out");
}

// --- What --dry-run says --------------------------------------------------------------------------------------------

std::string shown(const Machine& machine, const Words& words, bool json = false) {
  auto plan = machine.plan(Verb::kRun, words);
  return plan ? dry_run_nodes(*plan, machine.environment(), json) : plan.error().text();
}

TEST(DryRunNodes, HostsRanksAndWhy) {
  Machine machine;
  std::string text = shown(machine, {"--hosts=n1,n2:4,n3,n4", "--nnodes=2:3", "--nproc-per-node=2", "train.py"});
  EXPECT_THAT(text, HasSubstr("fan-out to 2 to 3 of 4 hosts (--hosts names 4)\n"));
  EXPECT_THAT(text, HasSubstr("  n1  ranks 0-1\n  n2  ranks 2-5\n  n3  ranks 6-7\n  n4  spare\n"));
  EXPECT_THAT(text, HasSubstr("GLOO_SOCKET_IFNAME: set where a node's own name leads nowhere"));
  EXPECT_THAT(text, HasSubstr("NCCL_SOCKET_IFNAME: not set\n"));
  text = shown(machine, {"--hosts=n1:2,n2:1", "-m", "pkg.train", "--lr", "1"});
  EXPECT_THAT(text, HasSubstr("  n1  ranks 0-1\n  n2  rank 2\n  command  -m pkg.train --lr 1\n"));
  text = shown(machine, {"--hosts=n1:2,n2,n3", "train.py"});
  EXPECT_THAT(text, HasSubstr("  n1  ranks 0-1\n  n2  ranks known when it has joined\n"));
  machine.variables["GLOO_SOCKET_IFNAME"] = "eth9";
  text = shown(machine, {"--local-nodes=2", "--interface=eth0", "train.py"});
  EXPECT_THAT(text, HasSubstr("GLOO_SOCKET_IFNAME: eth9 (yours)\n"));
  EXPECT_THAT(text, HasSubstr("NCCL_SOCKET_IFNAME: the interface of eth0\n"));
}

TEST(DryRunNodes, WhatWorkersFind) {
  Machine machine;
  std::string text =
      shown(machine, {"--hosts=n1,n2", "--env=A=1", "--container=torch:2", "--max-restarts=3", "train.py"});
  EXPECT_THAT(text, HasSubstr("  command  train.py\n  container  torch:2, in the container runtime of each node\n"));
  for (const char* line : {"RANK=<of each worker>", "GROUP_RANK=<of each node>", "MASTER_ADDR=<the node of rank 0>",
                           "WORLD_SIZE=<known when all have joined>", "MASTER_PORT=<chosen at start>",
                           "TORCHELASTIC_MAX_RESTARTS=3", "A=1", "OMP_NUM_THREADS=<cores of the node, divided"})
    EXPECT_THAT(text, HasSubstr(fmt::format("\n    {}", line)));
  machine.variables["OMP_NUM_THREADS"] = "2";
  EXPECT_THAT(shown(machine, {"--hosts=n1,n2", "train.py"}), Not(HasSubstr("OMP_NUM_THREADS")));
  text = shown(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=h", "--insecure", "train.py"});
  EXPECT_THAT(text, HasSubstr("\n    MASTER_ADDR=h\n    MASTER_PORT=29500\n"));
  EXPECT_THAT(text, HasSubstr("  command  /usr/bin/python3 -u train.py\n"));
}

TEST(DryRunNodes, WhoHostsAndWhere) {
  Machine machine;
  EXPECT_THAT(shown(machine, {"--nnodes=2", "--node-rank=0", "--master-addr=10.9.9.9", "train.py"}),
              HasSubstr(":29500: this node hosts the job as node rank 0, although 10.9.9.9 is another machine; if"));
  machine.key = "k";
  std::string text = shown(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=h", "train.py"});
  EXPECT_THAT(text, HasSubstr("symmetric, 2 nodes (--nnodes 2, no hosts named)\n"));
  EXPECT_THAT(text, HasSubstr("meet at h:29500: another node hosts the job\n  this is node 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("any process that reaches")));
  text = shown(machine, {"--nnodes=2", "--rdzv-endpoint=mine:7", "--rdzv-backend=c10d", "--insecure", "train.py"});
  EXPECT_THAT(text, HasSubstr("this node hosts the job, or another one on this machine"));
  EXPECT_THAT(text, HasSubstr("ranks are known when all have joined"));
  EXPECT_THAT(text, HasSubstr("no secret: any process that reaches the port can join"));
}

TEST(DryRunNodes, Json) {
  Machine machine;
  std::string text = shown(machine, {"--hosts=n1,n2:4", "train.py"}, true);
  EXPECT_THAT(text, HasSubstr("\"mode\": \"fanout\""));
  EXPECT_THAT(text, HasSubstr("\"workers\": 4"));
  text = shown(machine, {"--nnodes=2", "--node-rank=1", "--master-addr=h", "train.py"}, true);
  EXPECT_THAT(text, HasSubstr("\"node_rank\": 1"));
}

}  // namespace
}  // namespace muster::cli
