#include "muster/accelerate/translate.h"

#include <gmock/gmock.h>

#include "muster/accelerate/test/helpers.h"

namespace muster::accelerate::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Machine in_slurm(int machines, std::optional<int> rank) {
  Machine machine = plain_machine();
  machine.machines = machines;
  machine.rank = rank;
  machine.scheduler = "Slurm";
  return machine;
}

TEST(Plain, OneProcessHasNoRank) {
  Launch plain = launch({"train.py", "--lr", "1"});
  EXPECT_FALSE(plain.request.ranked);
  EXPECT_THAT(plain.notes, IsEmpty());
  EXPECT_EQ(option(plain, "nproc-per-node"), "1");
  EXPECT_TRUE(plain.request.run_path);
  EXPECT_THAT(plain.request.words, ElementsAre("train.py", "--lr", "1"));
  EXPECT_EQ(variable(plain, "ACCELERATE_USE_CPU"), "False");
  EXPECT_EQ(variable(plain, "KMP_BLOCKTIME"), "<unset>");
  EXPECT_EQ(variable(plain, "OMP_NUM_THREADS"), "1");
  EXPECT_FALSE(launch({"--num_processes=1", "t.py"}, with_gpus(8)).request.ranked);
  EXPECT_FALSE(launch({"--num_processes=0", "t.py"}).request.ranked);
  EXPECT_FALSE(launch({"--cpu", "t.py"}, with_gpus(8)).request.ranked);
}

TEST(Plain, OnTheCpuItsThreadsAreTheCores) {
  EXPECT_EQ(variable(launch({"--cpu", "--num_processes=1", "t.py"}), "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(variable(launch({"--cpu", "t.py"}), "OMP_NUM_THREADS"), "1");
  EXPECT_EQ(variable(launch({"--cpu", "t.py"}), "KMP_AFFINITY"), "granularity=fine,compact,1,0");
}

TEST(Processes, AsManyAsAskedForOnTheCpu) {
  Launch two = launch({"--num_processes=2", "t.py"});
  EXPECT_TRUE(two.request.ranked);
  EXPECT_EQ(option(two, "nproc-per-node"), "2");
  EXPECT_EQ(variable(two, "ACCELERATE_USE_CPU"), "True");
  EXPECT_EQ(variable(two, "OMP_NUM_THREADS"), "2");
  EXPECT_THAT(two.notes, ElementsAre(HasSubstr("2 processes and no GPU here: as many ranks on the CPU")));
  EXPECT_EQ(option(configured_launch({"t.py"}, "distributed_type: MULTI_CPU\nnum_processes: 3\nuse_cpu: true\n"),
                   "nproc-per-node"),
            "3");
}

TEST(Processes, OneAGpu) {
  Launch all = launch({"t.py"}, with_gpus(4));
  EXPECT_TRUE(all.request.ranked);
  EXPECT_EQ(option(all, "nproc-per-node"), "<absent>");  // muster run counts
  EXPECT_EQ(variable(all, "ACCELERATE_USE_CPU"), "<unset>");
  EXPECT_THAT(all.notes, IsEmpty());
  Launch some = launch({"--gpu_ids=1,3", "t.py"}, with_gpus(4));
  EXPECT_EQ(option(some, "nproc-per-node"), "2");
  EXPECT_EQ(variable(some, "CUDA_VISIBLE_DEVICES"), "1,3");
  EXPECT_THAT(some.notes,
              ElementsAre("--gpu_ids 1,3: 2 processes a machine (accelerate starts one for each of 4 GPUs)"));
}

TEST(Processes, OneGpuAMachineIsNoReasonForOneProcess) {
  Machine machine = with_gpus(1);
  Launch two =
      launch({"--num_machines=2", "--num_processes=2", "--machine_rank=1", "--main_process_ip=n1", "t.py"}, machine);
  EXPECT_TRUE(two.request.ranked);
  EXPECT_EQ(option(two, "nproc-per-node"), "1");
  EXPECT_EQ(variable(two, "ACCELERATE_USE_CPU"), "<unset>");
  EXPECT_THAT(two.notes, ElementsAre(HasSubstr("one GPU a machine")));
  EXPECT_THAT(launch({"--num_processes=2", "t.py"}, machine).notes, Contains(HasSubstr("share 1 GPU")));
}

TEST(Processes, MultiGpuIsAcceleratesEnvironmentToTheLetter) {
  Launch two = launch({"--multi_gpu", "--num_processes=2", "t.py"});
  std::vector<std::string> names;
  for (const auto& [name, value] : two.request.worker_variables) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND",
                                                   "ACCELERATE_DYNAMO_MODE", "ACCELERATE_DYNAMO_USE_FULLGRAPH",
                                                   "ACCELERATE_DYNAMO_USE_DYNAMIC",
                                                   "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "OMP_NUM_THREADS"));
  EXPECT_THAT(two.notes, ElementsAre(HasSubstr("no GPU is seen here")));
}

TEST(Processes, TheRemainderIsNotLost) {
  EXPECT_EQ(share_of(5, 2, 0), 3);
  EXPECT_EQ(share_of(5, 2, 1), 2);
  EXPECT_EQ(share_of(8, 3, 2), 2);
  const Words five = {"--num_machines=2", "--num_processes=5", "--main_process_ip=n1", "t.py"};
  Words first = five, second = five;
  first.insert(first.begin(), "--machine_rank=0");
  second.insert(second.begin(), "--machine_rank=1");
  EXPECT_EQ(option(launch(first), "nproc-per-node"), "3");
  EXPECT_EQ(option(launch(second), "nproc-per-node"), "2");
  EXPECT_THAT(launch(first).notes,
              Contains("5 processes on 2 machines: 3 on the first, 2 on the other (accelerate loses the remainder)"));
  EXPECT_FALSE(launch(first).uneven);
  EXPECT_TRUE(launch(five).uneven);
  EXPECT_THAT(refusal({"--num_machines=3", "--num_processes=2", "--main_process_ip=n1", "t.py"}),
              HasSubstr("write 3 or more"));
}

TEST(Machines, StaticAndC10d) {
  Launch fixed = launch({"--num_machines=2", "--num_processes=4", "--machine_rank=1", "--main_process_ip=n1",
                         "--main_process_port=1234", "--same_network", "t.py"});
  EXPECT_EQ(option(fixed, "nnodes"), "2");
  EXPECT_EQ(option(fixed, "node-rank"), "1");
  EXPECT_EQ(option(fixed, "master-addr"), "n1");
  EXPECT_EQ(option(fixed, "master-port"), "1234");
  EXPECT_EQ(option(fixed, "rdzv-backend"), "<absent>");
  Launch free = launch({"--num_machines=2", "--num_processes=4", "--machine_rank=1", "--main_process_ip=::1",
                        "--main_process_port=1234", "--rdzv_backend=c10d", "--same_network", "t.py"});
  EXPECT_EQ(option(free, "rdzv-backend"), "c10d");
  EXPECT_EQ(option(free, "rdzv-endpoint"), "[::1]:1234");
  EXPECT_EQ(option(free, "node-rank"), "<absent>");
  EXPECT_THAT(free.notes, Contains(HasSubstr("accelerate drops the address")));
  EXPECT_THAT(refusal({"--num_machines=2", "--num_processes=4", "t.py"}), HasSubstr("give --main_process_ip HOST"));
}

TEST(Machines, TheSchedulerKnows) {
  Launch task = launch({"--num_processes=4", "t.py"}, in_slurm(2, 1));
  EXPECT_EQ(option(task, "nnodes"), "<absent>");
  EXPECT_EQ(option(task, "node-rank"), "<absent>");
  EXPECT_EQ(option(task, "nproc-per-node"), "2");
  EXPECT_THAT(task.notes, Contains("2 machines, as Slurm says"));
  EXPECT_EQ(option(launch({"--num_processes=5", "--machine_rank=", "t.py"}, in_slurm(2, 1)), "nproc-per-node"), "2");
  EXPECT_EQ(option(launch({"--num_processes=5", "t.py"}, in_slurm(2, 0)), "nproc-per-node"), "3");
  // What every node of a shared config file says is not this machine's number.
  Launch shared = configured_launch(
      {"t.py"}, "distributed_type: MULTI_GPU\nnum_processes: 5\nnum_machines: 2\nmachine_rank: 0\n", in_slurm(2, 1));
  EXPECT_EQ(option(shared, "nproc-per-node"), "2");
  EXPECT_EQ(option(shared, "node-rank"), "<absent>");
  EXPECT_EQ(option(launch({"--num_processes=5", "--num_machines=2", "--machine_rank=0", "t.py"}, in_slurm(2, 1)),
                   "nproc-per-node"),
            "2");
  EXPECT_THAT(launch({"--num_processes=4", "--num_machines=2", "--machine_rank=0", "--rdzv_backend=c10d",
                      "--main_process_ip=n1", "t.py"},
                     in_slurm(2, 1))
                  .notes,
              Contains("--machine_rank 0 is ignored: Slurm says that this is machine 1, and c10d numbers them itself"));
  EXPECT_THAT(launch({"--num_processes=4", "--num_machines=2", "t.py"}, in_slurm(2, 1)).notes,
              Contains("number 1 of 2 machines, which meet on the first, as Slurm says"));
  EXPECT_THAT(launch({"--num_processes=4", "--num_machines=2", "--main_process_ip=n1", "t.py"}, in_slurm(2, 1)).notes,
              Contains("number 1 of 2 machines, as Slurm says"));
  EXPECT_THAT(launch({"--num_processes=4", "--num_machines=2", "--machine_rank=1", "--rdzv_backend=c10d", "t.py"},
                     in_slurm(2, 1))
                  .notes,
              Contains("2 machines, which meet on the first, as Slurm says"));
  EXPECT_EQ(option(launch({"--num_processes=1", "t.py"}, in_slurm(2, 1)), "nnodes"), "1");
  // A batch script: whose machine this is, is decided later.
  Launch head = launch({"--num_processes=5", "t.py"}, in_slurm(2, std::nullopt));
  EXPECT_TRUE(head.uneven);
  EXPECT_EQ(head.request.processes, 5);
}

TEST(Machines, AHostfileIsStartedFromHere) {
  Launch mpi = launch({"--mpirun_hostfile=hosts", "--num_processes=4", "t.py"});
  EXPECT_EQ(option(mpi, "hostfile"), "hosts");
  EXPECT_EQ(option(mpi, "nproc-per-node"), "<absent>");
  EXPECT_EQ(mpi.request.processes, 4);
  EXPECT_TRUE(mpi.request.ranked);
  Launch deepspeed =
      launch({"--use_deepspeed", "--deepspeed_hostfile=hosts", "--num_machines=2", "--num_processes=4", "t.py"});
  EXPECT_EQ(option(deepspeed, "hostfile"), "hosts");
  EXPECT_EQ(option(deepspeed, "nnodes"), "2");
}

TEST(Port, GivesWayOnOneMachine) {
  const Launch usual = launch({"--num_processes=2", "t.py"});
  EXPECT_EQ(option(usual, "master-port"), "29500");
  EXPECT_TRUE(usual.request.port_may_change);
  EXPECT_EQ(option(launch({"--num_processes=2", "--main_process_port=4000", "t.py"}), "master-port"), "4000");
  EXPECT_EQ(option(launch({"--num_processes=2", "--main_process_port=0", "t.py"}), "master-port"), "<absent>");
}

TEST(Agent, HasItsShareAndItsOwnGpus) {
  const Words words = {"--num_processes=5", "--num_machines=2", "--mpirun_hostfile=f", "t.py"};
  Launch part = launch(words);
  Machine machine = plain_machine();
  machine.agent = true;
  machine.workers = 3;
  ASSERT_TRUE(complete(part.request, machine));
  EXPECT_EQ(option(part, "nproc-per-node"), "3");
  EXPECT_EQ(variable(part, "ACCELERATE_USE_CPU"), "True");
  machine.gpus = 3;
  ASSERT_TRUE(complete(part.request, machine));
  EXPECT_EQ(variable(part, "ACCELERATE_USE_CPU"), "<unset>");
  part.request.accelerate.emplace_back("no_such_setting", "1");
  EXPECT_FALSE(complete(part.request, machine));
}

TEST(Program, IsRunByPythonUnlessSaidOtherwise) {
  EXPECT_TRUE(launch({"--module", "pkg"}).request.module);
  EXPECT_TRUE(launch({"--no_python", "./a.out"}).request.no_python);
  EXPECT_THAT(refusal({"--no_python", "-m", "x"}), HasSubstr("exclude each other"));
  const Words more = {"--max_restarts=2", "--log_dir=logs", "--tee=3", "--role=trainer", "-q", "--label=none", "t.py"};
  EXPECT_EQ(launch(more).request.log_threshold, LogLevel::kWarning);
  EXPECT_THAT(torchrun_words(parsed(more).settings),
              ElementsAre("--max_restarts=2", "--tee=3", "--log_dir=logs", "--role=trainer"));
}

TEST(Environment, OfEveryFlag) {
  Launch all = launch({"--multi_gpu", "--num_processes=2", "--mixed_precision=bf16", "--dynamo_backend=inductor",
                       "--dynamo_mode=max-autotune", "--dynamo_use_fullgraph", "--debug", "--enable_cpu_affinity",
                       "--num_cpu_threads_per_process=7", "t.py"});
  EXPECT_EQ(variable(all, "ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_EQ(variable(all, "ACCELERATE_DYNAMO_BACKEND"), "INDUCTOR");
  EXPECT_EQ(variable(all, "ACCELERATE_DYNAMO_MODE"), "max-autotune");
  EXPECT_EQ(variable(all, "ACCELERATE_DYNAMO_USE_FULLGRAPH"), "True");
  EXPECT_EQ(variable(all, "ACCELERATE_DEBUG_MODE"), "true");
  EXPECT_EQ(variable(all, "ACCELERATE_CPU_AFFINITY"), "1");
  EXPECT_EQ(variable(all, "OMP_NUM_THREADS"), "7");
}

TEST(Environment, ThreadsAreInherited) {
  Machine machine = plain_machine();
  machine.environment = {{"OMP_NUM_THREADS", "3"}};
  EXPECT_EQ(variable(launch({"t.py"}, machine), "OMP_NUM_THREADS"), "3");
  machine.environment = {{"OMP_NUM_THREADS", "4,2"}};
  EXPECT_EQ(variable(launch({"t.py"}, machine), "OMP_NUM_THREADS"), "4,2");
}

TEST(Environment, NamesInSmallLettersAreCopied) {
  Machine machine = plain_machine();
  machine.environment = {{"http_proxy", "a"}, {"X_y", "b"}, {"no_proxy", "c"},
                         {"NO_PROXY", "d"},   {"Q", "e"},   {"q", "f"}};
  Launch two = launch({"--multi_gpu", "--num_processes=2", "t.py"}, machine);
  EXPECT_EQ(variable(two, "HTTP_PROXY"), "a");
  EXPECT_EQ(variable(two, "X_Y"), "b");
  EXPECT_EQ(variable(two, "NO_PROXY"), "<unset>");  // the one there came last
  EXPECT_EQ(variable(two, "Q"), "f");
  EXPECT_EQ(variable(launch({"t.py"}, machine), "HTTP_PROXY"), "<unset>");
}

TEST(Environment, OfFsdpMegatronAndDeepspeed) {
  Launch fsdp = launch({"--use_fsdp", "--num_processes=2", "--fsdp_offload_params=True",
                        "--fsdp_state_dict_type=SHARDED_STATE_DICT", "t.py"},
                       with_gpus(2));
  EXPECT_EQ(variable(fsdp, "ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(variable(fsdp, "FSDP_OFFLOAD_PARAMS"), "true");
  EXPECT_EQ(variable(fsdp, "FSDP_SHARDING_STRATEGY"), "FULL_SHARD");
  EXPECT_EQ(variable(fsdp, "FSDP_AUTO_WRAP_POLICY"), "<unset>");
  Launch megatron =
      launch({"--use_megatron_lm", "--num_processes=2", "--megatron_lm_tp_degree=2", "t.py"}, with_gpus(2));
  EXPECT_EQ(variable(megatron, "MEGATRON_LM_TP_DEGREE"), "2");
  EXPECT_EQ(variable(megatron, "MEGATRON_LM_GRADIENT_CLIPPING"), "1.0");
  EXPECT_EQ(variable(megatron, "MEGATRON_LM_NUM_MICRO_BATCHES"), "<unset>");
  Launch deepspeed = launch(
      {"--use_deepspeed", "--num_processes=2", "--zero_stage=3", "--zero3_init_flag=True", "t.py"}, with_gpus(2));
  EXPECT_EQ(variable(deepspeed, "ACCELERATE_DEEPSPEED_ZERO_STAGE"), "3");
  EXPECT_EQ(variable(deepspeed, "ACCELERATE_DEEPSPEED_ZERO3_INIT"), "true");
  EXPECT_EQ(variable(deepspeed, "PYTHONPATH"), "/here");
  EXPECT_EQ(variable(deepspeed, "ACCELERATE_DYNAMO_BACKEND"), "<unset>");
  EXPECT_EQ(variable(deepspeed, "OMP_NUM_THREADS"), "1");
  EXPECT_EQ(variable(configured_launch({"t.py"},
                                       "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: "
                                       "bf16\ndeepspeed_config: {zero_stage: 2}\n"),
                     "ACCELERATE_CONFIG_DS_FIELDS"),
            "zero_stage,mixed_precision");
}

TEST(Environment, OfFp8AndParallelism) {
  Launch fp8 =
      launch({"--mixed_precision=fp8", "--fp8_backend=te", "--fp8_override_linear_precision=false,true,false", "t.py"});
  EXPECT_EQ(variable(fp8, "ACCELERATE_FP8_BACKEND"), "te");
  EXPECT_EQ(variable(fp8, "ACCELERATE_FP8_OVERRIDE_DGRAD"), "1");
  EXPECT_EQ(variable(fp8, "ACCELERATE_FP8_PAD_INNER_DIM"), "1");
  Launch parallel = launch({"--use_fsdp", "--fsdp_version=2", "--use_parallelism_config",
                            "--parallelism_config_cp_size=2", "--num_processes=2", "t.py"},
                           with_gpus(2));
  EXPECT_EQ(variable(parallel, "PARALLELISM_CONFIG_CP_SIZE"), "2");
  EXPECT_EQ(variable(parallel, "PARALLELISM_CONFIG_CP_COMM_STRATEGY"), "allgather");
  EXPECT_THAT(refusal({"--use_parallelism_config", "t.py"}), HasSubstr("needs --use_fsdp"));
}

TEST(Environment, GpusWithoutPeerAccess) {
  Machine machine = with_gpus(2);
  machine.peer_access = false;
  machine.environment = {{"NCCL_IB_DISABLE", "0"}};
  Launch two = launch({"t.py"}, machine);
  EXPECT_EQ(variable(two, "NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(variable(two, "NCCL_IB_DISABLE"), "<unset>");
}

TEST(Refusals, NameTheFlag) {
  EXPECT_THAT(refusal({"--tpu", "t.py"}), HasSubstr("--tpu"));
  EXPECT_THAT(refusal({"--cpu", "--multi_gpu", "t.py"}), HasSubstr("--cpu and --multi_gpu exclude each other"));
  EXPECT_THAT(refusal({"--multi_gpu", "--num_processes=1", "t.py"}), HasSubstr("two processes or more"));
  EXPECT_THAT(refusal({"--use_deepspeed", "--deepspeed_inclusion_filter=n1", "t.py"}),
              HasSubstr("--deepspeed_inclusion_filter"));
  EXPECT_THAT(refusal({"--num_processes=-1", "t.py"}), HasSubstr("out of range"));
  EXPECT_THAT(refusal({"--num_machines=0", "t.py"}), HasSubstr("--num_machines"));
  EXPECT_THAT(launch({"--downcast_bf16", "t.py"}).notes, ElementsAre("--downcast_bf16 has no effect here"));
}

TEST(Words, AreAccelerates) {
  EXPECT_EQ(in_its_words("--node-rank: give --nnodes and --master-addr"),
            "--machine_rank: give --num_machines and --main_process_ip");
}

}  // namespace
}  // namespace muster::accelerate::test
