#include <gmock/gmock.h>
#include <signal.h>

#include "muster/cli/test/plans.h"

namespace muster::cli {
namespace {

using namespace test;
using job::LabelKind;
using job::StoreHost;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using StdinKind = job::StdinSpec::Kind;

process::GpuCount four_gpus() {
  return {4, "CUDA_VISIBLE_DEVICES=0,1,2,3", {"0", "1", "2", "3"}, "CUDA_VISIBLE_DEVICES"};
}

TEST(JobOptions, OneWorkerWithoutAGpuOneAGpuOtherwise) {
  Machine machine;
  EXPECT_EQ(machine.run({"train.py"}).workers, 1);
  machine.gpus = four_gpus();
  EXPECT_EQ(machine.run({"train.py"}).workers, 4);
  EXPECT_EQ(machine.run({"--nproc-per-node=2", "train.py"}).workers, 2);
  EXPECT_EQ(machine.torchrun({"train.py"}).workers, 1) << "torchrun's own default";
  EXPECT_EQ(machine.torchrun({"--nproc-per-node=gpu", "train.py"}).workers, 4);
  EXPECT_EQ(machine.run({"--nproc-per-node=auto", "train.py"}).workers, 4);
}

TEST(JobOptions, CountsProcessors) {
  Machine machine;
  EXPECT_EQ(machine.run({"--nproc-per-node=cpu", "train.py"}).workers, 24);
  EXPECT_EQ(machine.run({"--nproc-per-node=auto", "train.py"}).workers, 24);
}

TEST(JobOptions, RefusesANumberOfWorkersThatIsNone) {
  Machine machine;
  EXPECT_EQ(machine.error({"--nproc-per-node", "0", "train.py"}),
            "--nproc-per-node: 0 is too small; it must be at least 1");
  EXPECT_EQ(machine.error({"--nproc-per-node", "-1", "train.py"}),
            "--nproc-per-node: -1 is too small; it must be at least 1");
  EXPECT_EQ(machine.error({"--nproc-per-node", "gpu", "train.py"}),
            "--nproc-per-node: there is no GPU (this machine shows none); give a number, or auto");
  machine.gpus.source = "CUDA_VISIBLE_DEVICES=";
  EXPECT_EQ(machine.error({"--nproc-per-node", "gpu", "train.py"}),
            "--nproc-per-node: there is no GPU (CUDA_VISIBLE_DEVICES= says so); give a number, or auto");
  machine.variables["PET_NPROC_PER_NODE"] = "x";
  EXPECT_EQ(machine.error({"train.py"}),
            "PET_NPROC_PER_NODE: 'x' is not a number of workers; write a number, gpu, cpu, xpu or auto");
}

TEST(JobOptions, HostsAreSeparatedByCommas) {
  Machine machine;
  EXPECT_EQ(machine.error({"--hosts", "n1", "n2", "n3", "train.py", "--lr", "1"}),
            "--hosts: the list ends at the blank, and 'n2' is not a program; write --hosts n1,n2,n3 train.py");
  EXPECT_EQ(machine.error({"--hosts", "10.0.0.1", "10.0.0.12:4", "train.py"}),
            "--hosts: the list ends at the blank, and '10.0.0.12:4' is not a program; write --hosts "
            "10.0.0.1,10.0.0.12:4 train.py");
  EXPECT_EQ(machine.error({"--hosts", "n1", "n[2-3]", "/only/there", "x"}),
            "--hosts: the list ends at the blank, and 'n[2-3]' is not a program; write --hosts n1,n[2-3] /only/there");
  EXPECT_EQ(machine.plan(Verb::kRun, {"--hosts", "n1,n2", "train.py", "train.py"}).ok(), true);
  EXPECT_EQ(machine.plan(Verb::kRun, {"--hosts", "n1", "--no-python", "tool", "train.py"}).ok(), true);
  EXPECT_EQ(machine.plan(Verb::kRun, {"--hosts", "n1", "tool", "--fast"}).ok(), true) << "a tool that only n1 has";
  machine.files["cfg.yaml"] = PathKind::kFile;
  machine.files["n4"] = PathKind::kExecutable;
  for (const Words& words : {Words{"/scratch/venv/bin/python", "train.py"}, Words{"prog", "--config", "cfg.yaml"},
                             Words{"prog", "train.py"}, Words{"n3", "--fast", "train.py"}, Words{"n4", "train.py"},
                             Words{"n", "train.py"}, Words{"python3", "train.py"}, Words{"./n3", "train.py"}}) {
    Words typed = {"--hosts", "n1,n2"};
    typed.insert(typed.end(), words.begin(), words.end());
    EXPECT_EQ(machine.error(typed), "accepted") << words[0] << ": only the nodes know whether they have it";
  }
}

TEST(JobOptions, AHostInThePlaceOfTheProgramIsGuessedOnTheNode) {
  Machine machine;
  auto error = [&](const Words& words) {
    auto plan = machine.plan_as_member(Verb::kRun, words, {});
    return plan ? "accepted" : plan.error().text();
  };
  EXPECT_EQ(error({"--hosts", "anna", "bert", "train.py"}),
            "'bert' does not exist; it is neither a file here nor a program on PATH; for a module add -m; if it is a "
            "host, write --hosts anna,bert");
  for (const Words& words : {Words{"--hosts", "anna", "bert"}, Words{"--hosts", "anna", "./bert", "train.py"},
                             Words{"--hosts", "anna", "--nnodes", "1", "bert", "train.py"}})
    EXPECT_EQ(error(words).find("if it is a host"), std::string::npos) << words.back();
}

TEST(JobOptions, OptionsBehindTheProgramAreNoted) {
  Machine machine;
  EXPECT_EQ(notes(machine, {"train.py", "--nproc-per-node", "2"}),
            "--nproc-per-node comes after train.py, so train.py gets it and muster does not; options of muster come "
            "before: muster run --nproc-per-node N|gpu|cpu|xpu|auto train.py\n");
  EXPECT_EQ(notes(machine, {"--nnodes=1", "train.py", "--nnodes=2"}), "") << "it was given to muster too";
  EXPECT_EQ(notes(machine, {"train.py", "--", "--nproc-per-node", "2"}), "") << "expressly the program's";
  EXPECT_EQ(notes(machine, {"train.py", "--log-dir", "x", "--mode", "fast"}), "") << "programs have these too";
}

TEST(JobOptions, TakesGpusAsSlurmWritesThem) {
  Machine machine;
  EXPECT_EQ(machine.run({"--nproc-per-node=v100:4", "train.py"}).workers, 4);
  machine.variables["PET_NPROC_PER_NODE"] = "gpu:v100:1,a100:1";
  EXPECT_EQ(machine.run({"train.py"}).workers, 2);
}

TEST(JobOptions, ThreadsAreTheCoresDividedAmongTheWorkers) {
  Machine machine;
  EXPECT_EQ(variable(machine.run({"--nproc-per-node=4", "train.py"}), "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(variable(machine.run({"train.py"}), "OMP_NUM_THREADS"), "16");
  EXPECT_EQ(variable(machine.run({"--nproc-per-node=100", "train.py"}), "OMP_NUM_THREADS"), "1");
  machine.variables["OMP_NUM_THREADS"] = "7";
  EXPECT_EQ(variable(machine.run({"--nproc-per-node=4", "train.py"}), "OMP_NUM_THREADS"), "7");
  // PBS gives each process all CPUs of its chunk, whether anybody wants it or not.
  machine.variables["PBS_ENVIRONMENT"] = "PBS_BATCH";
  machine.variables["NCPUS"] = "48";
  EXPECT_EQ(variable(machine.run({"--standalone", "--nproc-per-node=4", "train.py"}), "OMP_NUM_THREADS"), "7")
      << "the user's own";
  machine.variables["OMP_NUM_THREADS"] = "48";
  EXPECT_EQ(variable(machine.run({"--standalone", "--nproc-per-node=4", "train.py"}), "OMP_NUM_THREADS"), "4");
  machine.variables["OMP_NUM_THREADS"] = machine.variables["NCPUS"] = "8";
  EXPECT_EQ(variable(machine.run({"--standalone", "--nproc-per-node=4", "train.py"}), "OMP_NUM_THREADS"), "2")
      << "of 16 cores";
}

TEST(JobOptions, VerboseSaysWhatWasDecidedAndWhy) {
  Machine machine;
  machine.torch = process::TorchVersion{2, 6, "2.6.0"};
  const std::string all = notes(machine, {"-v", "train.py"});
  EXPECT_TRUE(all.starts_with("1 worker on ")) << all;
  EXPECT_THAT(all, HasSubstr(": one, as there is no GPU\n"
                             "program: /usr/bin/python3 (PyTorch 2.6.0)\n"
                             "store: muster hosts it at 127.0.0.1, on a free port\n"
                             "log files: none (--log-dir DIR keeps them)\n"
                             "OMP_NUM_THREADS=16: 16 cores for 1 worker\n"));
  EXPECT_THAT(
      notes(machine, {"-v", "--nproc-per-node=4", "--log-dir=logs", "--master-port=7", "train.py"}),
      ::testing::AllOf(HasSubstr(": --nproc-per-node 4\n"), HasSubstr(", port 7\n"), HasSubstr("log files: in logs\n"),
                       HasSubstr("OMP_NUM_THREADS=4: 16 cores for 4 workers\n")));
  EXPECT_THAT(notes(machine, {"-v", "--nproc-per-node=auto", "train.py"}),
              HasSubstr(": --nproc-per-node auto, 24 CPUs\n"));
  machine.gpus = {2, "CUDA_VISIBLE_DEVICES", {"0", "1"}, "CUDA_VISIBLE_DEVICES"};
  machine.variables["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(notes(machine, {"-v", "train.py"}), ::testing::AllOf(HasSubstr(": one per GPU (CUDA_VISIBLE_DEVICES)\n"),
                                                                   HasSubstr("OMP_NUM_THREADS=7: as it was set\n")));
  EXPECT_EQ(notes(machine, {"train.py"}), "");
  machine.variables["LOGLEVEL"] = "DEBUG";
  EXPECT_EQ(notes(machine, {"train.py"}, Verb::kTorchrun), "");
}

TEST(JobOptions, TorchrunSetsOneThreadAndWarns) {
  Machine machine;
  auto plan = machine.plan(Verb::kTorchrun, {"--nproc-per-node=2", "train.py"});
  ASSERT_TRUE(plan);
  EXPECT_EQ(variable(plan->job(), "OMP_NUM_THREADS"), "1");
  ASSERT_THAT(plan->notes, SizeIs(1));
  EXPECT_THAT(plan->notes[0].text, HasSubstr("Setting OMP_NUM_THREADS environment variable for each process to be 1"));
  EXPECT_EQ(variable(machine.torchrun({"train.py"}), "OMP_NUM_THREADS"), std::nullopt);
}

TEST(JobOptions, RunDecidesByWhatTheProgramIs) {
  Machine machine;
  auto argv = [&](const Words& words) { return machine.run(words).command.argv; };
  EXPECT_THAT(argv({"train.py", "-x"}), ElementsAre("/usr/bin/python3", "-u", "train.py", "-x"));
  EXPECT_THAT(argv({"tool.py"}), ElementsAre("/usr/bin/python3", "-u", "tool.py"));
  EXPECT_THAT(argv({"app.pyz"}), ElementsAre("/usr/bin/python3", "-u", "app.pyz"));
  EXPECT_THAT(argv({"pkg"}), ElementsAre("/usr/bin/python3", "-u", "pkg"));
  EXPECT_THAT(argv({"script"}), ElementsAre("/usr/bin/python3", "-u", "script"));
  EXPECT_THAT(argv({"-m", "my.mod", "x"}), ElementsAre("/usr/bin/python3", "-u", "-m", "my.mod", "x"));
  EXPECT_THAT(argv({"tool", "x"}), ElementsAre("tool", "x"));
  EXPECT_EQ(machine.run({"tool"}).command.program, "./tool");
  EXPECT_EQ(machine.run({"./bin/x"}).command.program, "./bin/x");
  EXPECT_EQ(machine.run({"hostname"}).command.program, "/bin/hostname");
  EXPECT_THAT(argv({"--run-path", "tool", "x"}),
              ElementsAre("/usr/bin/python3", "-u", "-c", HasSubstr("run_path"), "tool", "x"));
  EXPECT_THAT(argv({"--no-python", "tool"}), ElementsAre("tool"));
  EXPECT_EQ(machine.run({"train.py"}).command.template_from, 2u) << "Python's own words are taken as they are";
  EXPECT_EQ(machine.run({"--run-path", "train.py"}).command.template_from, 4u);
}

TEST(JobOptions, AScriptThatStartsMusterIsRunByPython) {
  Machine machine;
  auto argv = [&](const Words& words) { return machine.run(words).command.argv; };
  EXPECT_THAT(argv({"hello", "x"}), ElementsAre("/usr/bin/python3", "-u", "hello", "x"));
  machine.programs["onpath"] = "/opt/bin/onpath";
  machine.files["/opt/bin/onpath"] = PathKind::kMusterScript;
  EXPECT_THAT(argv({"onpath", "x"}), ElementsAre("/usr/bin/python3", "-u", "/opt/bin/onpath", "x"));
  for (Verb verb : {Verb::kRun, Verb::kTorchrun})
    EXPECT_EQ(
        machine.error({"--no-python", "onpath"}, verb),
        "the first line of 'onpath' starts muster, and --no-python would execute it: it would start itself without "
        "end; leave --no-python out, and Python runs it");
}

TEST(JobOptions, MustersInsideOfEachOtherAreCounted) {
  Machine machine;
  machine.variables["MUSTER_DEPTH"] = "3";
  EXPECT_EQ(machine.error({"train.py"}), "accepted");
  machine.variables["MUSTER_DEPTH"] = "4";
  for (Verb verb : {Verb::kRun, Verb::kTorchrun, Verb::kLaunch})
    EXPECT_EQ(machine.error({"train.py"}, verb),
              "this muster runs inside of 4 others, and each starts workers of its own: the program probably starts "
              "muster for itself; look at what PROGRAM runs; if it is meant, unset MUSTER_DEPTH in it");
  EXPECT_TRUE(machine.plan_as_member(Verb::kRun, {"--rdzv-id=1", "train.py"}, {}))
      << "an agent has the environment of its launcher, which was counted";
  machine.variables["SLURM_JOB_ID"] = "12";
  EXPECT_EQ(machine.error({"--mode=local", "train.py"}), "accepted") << "a worker may submit the next job";
  machine.variables["MUSTER_DEPTH"] = "4@12";
  EXPECT_THAT(machine.error({"--mode=local", "train.py"}), HasSubstr("inside of 4 others"));
}

TEST(JobOptions, TheScriptMayComeOnStdin) {
  Machine machine;
  machine.text_on_stdin = "print(1)";
  const job::JobSpec job = machine.run({"--nproc-per-node=2", "-", "x", "$local_rank"});
  ASSERT_TRUE(job.command.script);
  EXPECT_EQ(job.command.script->text, "print(1)");
  const std::string file = "/tmp/muster_script_00000000-0000-4000-8000-0000000000ff/stdin";
  EXPECT_EQ(job.command.script->file, file);
  EXPECT_THAT(job.command.argv,
              ElementsAre("/usr/bin/python3", "-u", "-c", HasSubstr("compile"), file, "-", "x", "$local_rank"));
  EXPECT_EQ(job.command.template_from, 5u);
  EXPECT_EQ(machine.run({"-"}).stdin_spec.kind, StdinKind::kNone) << "there is nothing left on it";
  EXPECT_EQ(machine.error({"--stdin=0", "-"}),
            "--stdin: the script itself is read from stdin, so workers cannot read it; leave it out, or put the script "
            "into a file");
  EXPECT_EQ(machine.error({"--stdin=none", "-"}), "accepted");
  machine.text_on_stdin = std::string((4 << 20) + 1, '#');
  EXPECT_THAT(machine.error({"-"}), HasSubstr("more than the 4 MiB that can be sent"));
  EXPECT_FALSE(machine.torchrun({"-"}).command.script) << "torchrun's workers read what torchrun has";
}

TEST(JobOptions, ScriptsThatNotEveryNodeHasTravelWithTheJob) {
  Machine machine;
  machine.text_on_stdin = "print(1)";
  EXPECT_EQ(fan_out(machine, {"--hosts=n1,n2", "-"}).description.script, "print(1)");
  EXPECT_EQ(fan_out(machine, {"--hosts=n1,n2", "train.py"}).description.script, std::nullopt);
  const std::string spooled = "/var/spool/slurmd/job00012/slurm_script";
  machine.texts[spooled] = "print(2)";
  machine.files[spooled] = PathKind::kMusterScript;
  EXPECT_EQ(fan_out(machine, {"--hosts=n1,n2", spooled}).description.script, std::nullopt) << "in no job of Slurm";
  machine.variables["SLURM_JOB_ID"] = "12";
  EXPECT_EQ(fan_out(machine, {"--hosts=n1,n2", spooled}).description.script, "print(2)");
  machine.files.erase(spooled);
  EXPECT_THAT(machine.error({"--mode=local", spooled}),
              ::testing::AllOf(HasSubstr("which only the job's first node has"), HasSubstr("leave srun out")))
      << "on a second node";
  Assignment assignment;
  assignment.script = "print(3)";
  auto part = machine.plan_as_member(Verb::kRun, {"--rdzv-id=1", spooled, "x"}, assignment);
  ASSERT_TRUE(part);
  ASSERT_TRUE(part->job().command.script);
  EXPECT_EQ(part->job().command.script->text, "print(3)");
  EXPECT_THAT(part->job().command.argv,
              ElementsAre("/usr/bin/python3", "-u", "-c", testing::_, part->job().command.script->file, spooled, "x"));
}

TEST(JobOptions, ATemporaryDirectoryThatIsNotThereIsNamed) {
  Machine machine;
  machine.text_on_stdin = "print(1)";
  machine.variables["TMPDIR"] = "/missing/tmp";
  EXPECT_EQ(notes(machine, {"train.py"}),
            "TMPDIR is /missing/tmp, which is not a directory: temporary files go to /tmp; make it, or unset TMPDIR\n");
  EXPECT_THAT(machine.run({"-"}).command.script->file, testing::StartsWith("/tmp/"));
  machine.variables["TMPDIR"] = "/scratch";
  EXPECT_EQ(notes(machine, {"train.py"}), "");
  EXPECT_THAT(machine.run({"-"}).command.script->file, testing::StartsWith("/scratch/"));
}

TEST(JobOptions, SshMayHaveArguments) {
  Machine machine;
  machine.programs["/opt/my tools/ssh"] = "/opt/my tools/ssh";
  auto ssh = [&](const std::string& command) {
    return fan_out(machine, {"--hosts=n1", "--ssh", command, "x.py"}).start.ssh;
  };
  EXPECT_EQ(ssh("ssh -F 'my config'").ssh, "ssh");
  EXPECT_THAT(ssh("ssh -F 'my config'").arguments, ElementsAre("-F", "my config"));
  EXPECT_EQ(ssh("/opt/my tools/ssh").ssh, "/opt/my tools/ssh") << "a program whose path has a blank";
  EXPECT_THAT(ssh("/opt/my tools/ssh").arguments, ElementsAre());
  EXPECT_THAT(ssh("'/opt/my tools/ssh' -v").arguments, ElementsAre("-v"));
  EXPECT_EQ(machine.error({"--hosts=n1", "--ssh", "rsh -l me", "x.py"}),
            "--ssh: 'rsh' not found; name the ssh to use, or install one");
  EXPECT_EQ(machine.error({"--hosts=n1", "--ssh", "ssh -i 'x", "x.py"}),
            "--ssh: there is no second ' in ssh -i 'x; close the quote");
}

TEST(JobOptions, TorchrunTakesEverythingForAScript) {
  Machine machine;
  EXPECT_THAT(machine.torchrun({"tool", "x"}).command.argv, ElementsAre("/usr/bin/python3", "-u", "tool", "x"));
  EXPECT_THAT(machine.torchrun({"missing.py"}).command.argv, ElementsAre("/usr/bin/python3", "-u", "missing.py"));
  EXPECT_EQ(machine.torchrun({"missing.py"}).command.entrypoint, "missing.py");
  EXPECT_EQ(machine.torchrun({"--run-path", "train.py"}).command.entrypoint, "run_script_path");
  machine.variables["PYTHON_EXEC"] = "/opt/python";
  EXPECT_EQ(machine.torchrun({"train.py"}).command.program, "/opt/python");
  EXPECT_EQ(machine.torchrun({"train.py"}).command.entrypoint, "/opt/python");
}

TEST(JobOptions, AProgramThatCannotBeRun) {
  Machine machine;
  auto missing = machine.plan(Verb::kRun, {"missing.py"});
  EXPECT_EQ(missing.error().text(),
            "'missing.py' does not exist; check the path; relative ones start at the current directory");
  EXPECT_EQ(exit_code(missing.error()), 127);
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"nothing"}).error()), 127);
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"--no-python", "nothing"}).error()), 127);
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"dir"}).error()), 126);
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"secret.py"}).error()), 126);
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"/closed/train.py"}).error()), 126);
  EXPECT_EQ(machine.plan(Verb::kRun, {"/closed/train.py"}).error().text(),
            "'/closed/train.py' cannot be reached: a directory of its path denies access; 'namei -l /closed/train.py' "
            "shows which one");
  EXPECT_EQ(machine.plan(Verb::kRun, {"secret.py"}).error().text(),
            "'secret.py' cannot be read: permission denied; chmod +r secret.py");
  EXPECT_EQ(exit_code(machine.plan(Verb::kRun, {"--run-path", "nothing.py"}).error()), 127);
  machine.python.reset();
  EXPECT_EQ(machine.error({"train.py"}), "no python on PATH; install it");
  EXPECT_EQ(machine.error({"tool"}), "accepted") << "nobody needs Python for that";
  EXPECT_EQ(machine.error({"-m", "--no-python", "x"}),
            "--no-python and --module exclude each other; leave one of them out");
}

TEST(JobOptions, RunMeetsOnTheLoopbackUnderAFreshName) {
  Machine machine;
  job::JobSpec job = machine.run({"train.py"});
  EXPECT_EQ(job.master_addr, "127.0.0.1");
  EXPECT_EQ(job.master_port, 0);
  EXPECT_EQ(job.run_id, "00000000-0000-4000-8000-0000000000ff");
  EXPECT_EQ(job.store_host, StoreHost::kAgent);
  EXPECT_EQ(machine.run({"--rdzv-id=mine", "train.py"}).run_id, "mine");
  EXPECT_EQ(machine.run({"--master-addr=h", "train.py"}).master_addr, "h");
  EXPECT_EQ(machine.run({"--rdzv-backend=c10d", "--rdzv-endpoint=h:5", "train.py"}).master_port, 5);
}

TEST(JobOptions, TorchrunMeetsWhereTorchrunDoes) {
  Machine machine;
  job::JobSpec job = machine.torchrun({"--rdzv-id=mine", "--master-addr=h", "train.py"});
  EXPECT_EQ(job.master_addr, "node7.example.org");
  EXPECT_EQ(job.run_id, "00000000-0000-4000-8000-0000000000ff") << "torchrun overwrites it when it switches to c10d";
  EXPECT_EQ(job.rdzv_backend, "c10d");
  EXPECT_EQ(machine.torchrun({"--local-addr=10.0.0.7", "train.py"}).master_addr, "10.0.0.7");

  job = machine.torchrun({"--master-port=1234", "train.py"});
  EXPECT_EQ(job.master_addr, "127.0.0.1");
  EXPECT_EQ(job.master_port, 1234);
  EXPECT_EQ(job.run_id, "none");
  EXPECT_EQ(job.rdzv_backend, "static");

  job = machine.torchrun({"--rdzv-endpoint=[::1]:1234", "--rdzv-id=", "train.py"});
  EXPECT_EQ(job.master_addr, "::1");
  EXPECT_EQ(job.run_id, "302240678275694148452607") << "a number when it is given empty";

  job = machine.torchrun({"--rdzv-backend=c10d", "--rdzv-endpoint=h:29400", "train.py"});
  EXPECT_EQ(job.master_addr, "node7.example.org");
  EXPECT_EQ(job.master_port, 0);
  EXPECT_EQ(job.run_id, "none");

  job = machine.torchrun({"--standalone", "--rdzv-backend=etcd", "--rdzv-id=x", "train.py"});
  EXPECT_EQ(job.run_id, "00000000-0000-4000-8000-0000000000ff");
}

TEST(JobOptions, BadRendezvous) {
  Machine machine;
  EXPECT_EQ(machine.error({"--rdzv-endpoint=h", "train.py"}),
            "--rdzv-endpoint: 'h' has no port; write h:29500, or use --rdzv-backend c10d");
  EXPECT_THAT(machine.error({"--rdzv-backend=etcd-v2", "train.py"}), HasSubstr("use c10d"));
  EXPECT_EQ(machine.error({"--rdzv-conf=timeout", "train.py"}),
            "--rdzv-conf: 'timeout' has no value; write timeout=VALUE");
  EXPECT_EQ(machine.error({"--master-port=70000", "train.py"}),
            "--master-port: 70000 is out of range; write 0 to 65535");
  EXPECT_EQ(machine.error({"--node-rank=1", "train.py"}),
            "--node-rank: there is no node 1 in a job of one node; leave it out, or say how many nodes there are with "
            "--nnodes");
  const std::string way_out = "; the job has one node: leave it out, or say how many nodes there are with --nnodes";
  EXPECT_EQ(machine.error({"--master-addr=10.9.9.9", "--master-port=1", "train.py"}),
            "--master-addr: '10.9.9.9' is not this machine" + way_out);
  EXPECT_EQ(machine.error({"--rdzv-backend=c10d", "--rdzv-endpoint=h.invalid:1", "train.py"}),
            "--rdzv-endpoint: cannot resolve 'h.invalid'" + way_out + "; for one node and a spare give --hosts");
  EXPECT_EQ(machine.error({"--nnodes=1:1", "--rdzv-backend=c10d", "--rdzv-endpoint=10.9.9.9:29400", "train.py"}),
            "--rdzv-endpoint: '10.9.9.9' is not this machine" + way_out + "; for one node and a spare give --hosts");
  EXPECT_EQ(machine.torchrun({"--master-addr=10.9.9.9", "--master-port=1", "train.py"}).master_addr, "10.9.9.9");
  // Whether or not a port, and so a static rendezvous, comes with it.
  EXPECT_EQ(machine.error({"--master-addr=10.9.9.9", "train.py"}),
            "--master-addr: '10.9.9.9' is not this machine" + way_out);
  EXPECT_EQ(machine.error({"--standalone", "--master-addr=h.invalid", "train.py"}),
            "--master-addr: cannot resolve 'h.invalid'" + way_out);
  EXPECT_EQ(machine.error({"--local-addr=10.9.9.9", "train.py"}),
            "--local-addr: '10.9.9.9' is not this machine" + way_out);
  EXPECT_EQ(machine.run({"--master-addr=[::1]", "train.py"}).master_addr, "::1");
  EXPECT_EQ(machine.torchrun({"--master-addr=10.9.9.9", "train.py"}).master_addr, "node7.example.org")
      << "torchrun does not look at it";
  machine.variables["PET_MASTER_ADDR"] = "10.9.9.9";
  EXPECT_THAT(machine.error({"train.py"}), HasSubstr("PET_MASTER_ADDR: '10.9.9.9' is not this machine"));
  machine.variables.clear();
  machine.taken_port = 4242;
  EXPECT_EQ(machine.error({"--master-port=4242", "train.py"}), "port 4242 is taken by pid 1 (init)");
}

TEST(JobOptions, AStoreKeepsToTheRangeOfPorts) {
  Machine machine;
  machine.taken_port = 4242;
  for (Verb verb : {Verb::kRun, Verb::kTorchrun}) {
    EXPECT_EQ(machine.job(verb, {"--port-range=4242-4243", "train.py"}).master_port, 4243);
    EXPECT_EQ(machine.job(verb, {"--port-range=4242-4243", "--master-port=0", "train.py"}).master_port, 4243);
    EXPECT_EQ(machine.job(verb, {"--port-range=4242-4243", "--master-port=7", "train.py"}).master_port, 7);
    EXPECT_EQ(machine.error({"--port-range=4242", "train.py"}, verb),
              "--port-range: every port from 4242 to 4242 is taken; give a wider range");
  }
}

TEST(JobOptions, WorkersHostTheStoreWhereTorchIsTooOld) {
  Machine machine;
  machine.torch = process::TorchVersion{1, 7, "1.7.1"};
  EXPECT_EQ(machine.run({"train.py"}).store_host, StoreHost::kWorker);
  EXPECT_EQ(machine.run({"--store=agent", "train.py"}).store_host, StoreHost::kAgent);
  machine.torch = process::TorchVersion{1, 13, "1.13.0a0"};
  EXPECT_EQ(machine.run({"train.py"}).store_host, StoreHost::kAgent);
  EXPECT_EQ(machine.run({"--store=worker", "train.py"}).store_host, StoreHost::kWorker);
  machine.variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
  EXPECT_EQ(machine.torchrun({"train.py"}).store_host, StoreHost::kWorker);
}

TEST(JobOptions, LaunchInjectsTheLocalRank) {
  Machine machine;
  job::JobSpec job = machine.job(Verb::kLaunch, {"train.py", "--x"});
  EXPECT_EQ(job.command.local_rank_position, 3u);
  EXPECT_EQ(job.command.local_rank_flag, "--local-rank");
  EXPECT_EQ(machine.job(Verb::kLaunch, {"-m", "mod"}).command.local_rank_position, 4u);
  machine.torch = process::TorchVersion{1, 13, "1.13.0a0"};
  EXPECT_EQ(machine.job(Verb::kLaunch, {"train.py"}).command.local_rank_flag, "--local_rank");
  EXPECT_EQ(machine.job(Verb::kLaunch, {"--use-env", "train.py"}).command.local_rank_position, std::nullopt);
  EXPECT_EQ(machine.error({"--no-python", "tool"}, Verb::kLaunch),
            "When using the '--no-python' flag, you must also set the '--use-env' flag.");
  EXPECT_EQ(machine.torchrun({"train.py"}).command.local_rank_position, std::nullopt);
}

TEST(JobOptions, OutputDefaults) {
  Machine machine;
  job::JobSpec one = machine.run({"train.py"});
  EXPECT_EQ(one.output.label, LabelKind::kNone);
  EXPECT_EQ(one.stdin_spec.kind, StdinKind::kRank);
  job::JobSpec two = machine.run({"--nproc-per-node=2", "train.py"});
  EXPECT_EQ(two.output.label, LabelKind::kRank);
  EXPECT_EQ(two.stdin_spec.kind, StdinKind::kNone);
  EXPECT_EQ(two.output.cap, uint64_t{1} << 30);
  EXPECT_FALSE(two.output.inherit_plain_streams);
  EXPECT_EQ(machine.run({"--label=host:rank", "train.py"}).output.label, LabelKind::kHostRank);
  job::JobSpec torch = machine.torchrun({"--nproc-per-node=2", "train.py"});
  EXPECT_EQ(torch.output.prefix_template, "[${role_name}${local_rank}]:");
  EXPECT_EQ(torch.stdin_spec.kind, StdinKind::kInherit);
  EXPECT_TRUE(torch.output.inherit_plain_streams);
}

TEST(JobOptions, AFilterForRanksThatNobodyHas) {
  Machine machine;
  EXPECT_EQ(notes(machine, {"--nproc-per-node=2", "--local-ranks-filter=0,7,8", "train.py"}),
            "--local-ranks-filter: no worker here has local rank 7 or 8; there are 2, from 0 on\n");
  EXPECT_EQ(notes(machine, {"--nproc-per-node=2", "--local-ranks-filter=1", "train.py"}), "");
  EXPECT_EQ(notes(machine, {"--nproc-per-node=2", "-r", "0:1,7:3", "train.py"}),
            "--redirects: no worker here has local rank 7; there are 2, from 0 on\n");
  EXPECT_THAT(machine.run({"--nproc-per-node=2", "-r", "0:1,7:3", "train.py"}).output.redirects,
              ElementsAre(Pair(0, 1)));
  EXPECT_EQ(notes(machine, {"-t", "7:3", "train.py"}, Verb::kTorchrun), "") << "as torchrun";
  EXPECT_EQ(notes(machine, {"--hosts=n1", "--local-ranks-filter=7", "train.py"}), "") << "nobody knows yet";
  EXPECT_EQ(notes(machine, {"--local-ranks-filter=7", "train.py"}, Verb::kTorchrun), "") << "as torchrun";
}

TEST(JobOptions, ValuesForSeveralNodesAreCheckedOnOneToo) {
  Machine machine;
  machine.texts["empty"] = "\n";
  machine.texts["secret"] = "s\n";
  for (Verb verb : {Verb::kRun, Verb::kTorchrun}) {
    auto error = [&](const std::string& word) { return machine.error({word, "train.py"}, verb); };
    EXPECT_EQ(error("--lease=1"), "--lease: 1 is out of range; write 2 or more seconds");
    EXPECT_EQ(error("--crash-loop=-1"), "--crash-loop: -1 is out of range; write 0 or more");
    EXPECT_EQ(error("--join-timeout=0"), "--join-timeout: 0 is out of range; write 1 or more seconds");
    EXPECT_THAT(error("--token-file=none"), HasSubstr("--token-file: 'none' cannot be read: No such file"));
    EXPECT_EQ(error("--token-file=empty"), "--token-file: 'empty' is empty");
    EXPECT_EQ(error("--token-file=secret"), "accepted");
    EXPECT_THAT(error("--port-range=9-8"), HasSubstr("'9-8' is not a range of ports"));
  }
}

TEST(JobOptions, ALogDirectoryMeansTeeUnlessSaidOtherwise) {
  Machine machine;
  EXPECT_THAT(machine.run({"--log-dir=d", "train.py"}).output.tee, ElementsAre(Pair(0, 3)));
  EXPECT_THAT(machine.run({"--log-dir=d", "-r1", "train.py"}).output.tee, ElementsAre(Pair(0, 0)));
  EXPECT_THAT(machine.run({"--log-dir=/dev/null", "train.py"}).output.tee, ElementsAre(Pair(0, 0)));
  EXPECT_THAT(machine.torchrun({"--log-dir=d", "train.py"}).output.tee, ElementsAre(Pair(0, 0)));
}

TEST(JobOptions, BadOutputOptions) {
  Machine machine;
  EXPECT_THAT(machine.error({"-t", "4", "train.py"}), HasSubstr("--tee: '4' selects no streams"));
  EXPECT_THAT(machine.error({"--local-ranks-filter=x", "train.py"}), HasSubstr("'x' is not a list of ranks"));
  EXPECT_THAT(machine.error({"--output-cap=x", "train.py"}), HasSubstr("'x' is not a size"));
  EXPECT_THAT(machine.error({"--stdin=1", "train.py"}), HasSubstr("'1' is not a rank of this job"));
  EXPECT_THAT(machine.error({"--progress-rank=1", "train.py"}), HasSubstr("1 is out of range"));
  EXPECT_THAT(machine.error({"--log-line-prefix-template=${x}", "train.py"}), HasSubstr("has no meaning"));
  EXPECT_THAT(machine.error({"--log-dir=/dev/null", "--duplicate-stdout-filters=a", "train.py"}),
              HasSubstr("name a directory"));
  EXPECT_THAT(machine.error({"--logs-specs=x", "train.py"}), HasSubstr("use --log-dir"));
  EXPECT_THAT(machine.error({"--event-log-handler=x", "train.py"}), HasSubstr("use null or console, or --events FILE"));
}

TEST(JobOptions, ChildrenAreKeptWhenAskedForAndByTorchrun) {
  Machine machine;
  EXPECT_FALSE(machine.run({"train.py"}).keep_children);
  EXPECT_TRUE(machine.run({"--keep-children", "train.py"}).keep_children);
  EXPECT_TRUE(machine.plan(Verb::kTorchrun, {"train.py"})->job().keep_children);
}

TEST(JobOptions, TheSchedulersJobNamesTheLogs) {
  Machine machine;
  EXPECT_EQ(machine.run({"--standalone", "train.py"}).scheduler_job, "");
  machine.variables["SLURM_JOB_ID"] = "4711";
  EXPECT_EQ(machine.run({"--standalone", "train.py"}).scheduler_job, "4711");
}

TEST(JobOptions, FailuresAndSignals) {
  Machine machine;
  machine.variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "7";
  job::JobSpec job = machine.run({"--max-restarts=3", "--signals-to-handle=SIGTERM,SIGUSR1", "train.py"});
  EXPECT_EQ(job.max_restarts, 3);
  EXPECT_EQ(job.shutdown_timeout, std::chrono::seconds(7));
  EXPECT_THAT(job.signals_to_handle, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_EQ(job.signals_text, "SIGTERM,SIGUSR1");
  EXPECT_EQ(machine.run({"--shutdown-timeout=2", "train.py"}).shutdown_timeout, std::chrono::seconds(2));
  EXPECT_THAT(machine.error({"--shutdown-timeout=-1", "train.py"}), HasSubstr("-1 is out of range; write 0 to"));
  EXPECT_THAT(machine.error({"--max-restarts=-1", "train.py"}), HasSubstr("-1 is out of range; write 0 or more"));
  EXPECT_THAT(machine.error({"--signals-to-handle=SIGNOPE", "train.py"}), HasSubstr("'SIGNOPE' is not a signal"));
  EXPECT_EQ(machine.error({"--signals-to-handle=SIGNOPE", "train.py"}, Verb::kTorchrun), "accepted");
  EXPECT_EQ(machine.error({"--signals-to-handle=SIGTERM,SIGKILL", "train.py"}),
            "--signals-to-handle: no process can handle SIGKILL; leave it out");
  EXPECT_THAT(machine.error({"--signals-to-handle=SIGSTOP", "train.py"}), HasSubstr("SIGSTOP"));
  EXPECT_EQ(machine.error({"--signals-to-handle=SIGKILL", "train.py"}, Verb::kTorchrun), "accepted");
  EXPECT_THAT(machine.error({"--report=/proc/x", "train.py"}), HasSubstr("--report: '/proc/x' cannot be written"));
}

TEST(JobOptions, ManyWorkersNeedManyDescriptors) {
  Machine machine;
  machine.descriptor_limit = 4096;
  std::string error = machine.error({"--nproc-per-node=10000", "train.py"});
  EXPECT_THAT(error, HasSubstr("10000 workers need 100064 file descriptors and this process may open 4096"));
  EXPECT_THAT(error, HasSubstr("ulimit -Hn 100064"));
}

TEST(JobOptions, QuietAndVerbose) {
  Machine machine;
  EXPECT_EQ(machine.run({"-q", "train.py"}).log_threshold, LogLevel::kWarning);
  EXPECT_EQ(machine.run({"-v", "train.py"}).log_threshold, LogLevel::kDebug);
  EXPECT_EQ(machine.run({"train.py"}).log_threshold, LogLevel::kInfo);
}

TEST(JobOptions, TorchrunsLogLevelIsAVariable) {
  Machine machine;
  EXPECT_EQ(machine.torchrun({"train.py"}).log_threshold, LogLevel::kWarning);
  machine.variables["LOGLEVEL"] = "INFO";
  EXPECT_EQ(machine.torchrun({"train.py"}).log_threshold, LogLevel::kInfo);
  EXPECT_EQ(machine.run({"train.py"}).log_threshold, LogLevel::kInfo);
  machine.variables["LOGLEVEL"] = "ERROR";
  EXPECT_EQ(machine.torchrun({"train.py"}).log_threshold, LogLevel::kError);
}

}  // namespace
}  // namespace muster::cli
