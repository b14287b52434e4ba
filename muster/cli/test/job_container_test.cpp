#include <gmock/gmock.h>

#include "muster/cli/test/plans.h"

namespace muster::cli::test {
namespace {

using container::Mount;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Machine with(const std::string& program) {
  Machine machine;
  machine.programs[program] = "/usr/bin/" + program;
  return machine;
}

TEST(JobContainer, EndsWithItsWorker) {
  EXPECT_THAT(with("podman").error({"--keep-children", "--container", "i", "train.py"}),
              HasSubstr("--keep-children: a container ends with its worker"));
}

TEST(JobContainer, WorkersRunInsideWithThePythonOfTheImage) {
  const Machine machine = with("podman");
  const job::JobSpec job = machine.run({"--container", "torch:2", "train.py", "-x"});
  ASSERT_TRUE(job.container);
  EXPECT_EQ(job.container->spec.kind, container::Kind::kPodman);
  EXPECT_EQ(job.container->spec.program, "/usr/bin/podman");
  EXPECT_EQ(job.container->spec.image, "torch:2");
  EXPECT_EQ(job.container->spec.directory, "/home/ada");
  EXPECT_EQ(job.command.argv, (Words{"/opt/bin/python", "-u", "train.py", "-x"}));
  EXPECT_EQ(job.torch_version, "") << "the node's torch is not the image's";
}

TEST(JobContainer, WorkingAndTemporaryDirectoryAreSeenInside) {
  Machine machine = with("podman");
  EXPECT_EQ(machine.run({"--container", "i", "train.py"}).container->spec.mounts,
            (std::vector<Mount>{{"/home/ada", "/home/ada", false}, {"/tmp", "/tmp", false}}));
  machine.variables["TMPDIR"] = "/scratch/7";
  EXPECT_EQ(machine
                .run({"--container", "i", "--mount", "data:/mnt:ro", "--log-dir", "/logs", "--container-workdir", "/w",
                      "train.py"})
                .container->spec.mounts,
            (std::vector<Mount>{{"/home/ada/data", "/mnt", true},
                                {"/home/ada", "/home/ada", false},
                                {"/scratch/7", "/scratch/7", false},
                                {"/logs", "/logs", false}}));
  EXPECT_THAT(machine.container_request->directories, Contains("/logs"));
}

TEST(JobContainer, AnEnvironmentOfTheNodeMeansNothingInside) {
  EXPECT_THAT(notes(with("podman"), {"--container", "i", "--venv", "v", "train.py"}),
              HasSubstr("--venv is without effect in a container: workers find the Python of the image\n"));
  EXPECT_THAT(notes(with("podman"), {"--container", "i", "--modules", "m", "train.py"}), Not(HasSubstr("effect")));
}

TEST(JobContainer, WhatIsAskedForIsHandedOn) {
  Machine machine = with("enroot");
  machine.variables["PYTHON_EXEC"] = "python3.12";
  machine.run({"--container", "/i.sqsh", "--container-name", "n", "--container-root", "--container-writable",
               "--container-option=--net", "--env", "KEY=1", "train.py"});
  ASSERT_TRUE(machine.container_request);
  const container::Request& request = *machine.container_request;
  EXPECT_EQ(request.spec.name, "n");
  EXPECT_TRUE(request.spec.root && request.spec.writable);
  EXPECT_EQ(request.spec.options, Words{"--net"});
  EXPECT_EQ(request.given_variables, std::set<std::string>{"KEY"});
  EXPECT_EQ(request.python, "python3.12");
  EXPECT_FALSE(request.dry);
}

TEST(JobContainer, EnrootTakesVariablesOfOneLine) {
  const Words words = {"--container", "/i.sqsh", "--env", "KEY=1\n2", "train.py"};
  EXPECT_EQ(with("enroot").error(words),
            "--env: KEY has several lines, and enroot takes one line per variable; put it into a file that workers "
            "read, or use "
            "another --container-runtime");
  EXPECT_EQ(with("podman").error(words), "accepted");
  Machine machine = with("enroot");
  machine.variables["LINES"] = "1\n2";
  EXPECT_EQ(machine.error({"--container", "/i.sqsh", "train.py"}), "accepted") << "nobody asked for it";
}

TEST(JobContainer, TheRuntimeThatWasChosenIsSaid) {
  const Machine machine = with("ch-run");
  auto plan = machine.plan(Verb::kRun, {"--container", "/i", "train.py"});
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_EQ(plan->notes[0].text, "workers run in charliecloud, the first container runtime on PATH");
  plan = machine.plan(Verb::kRun, {"--container", "/i", "--container-runtime", "charliecloud", "train.py"});
  EXPECT_TRUE(plan && plan->notes.empty());
}

TEST(JobContainer, AProgramOfTheImageIsFoundThere) {
  const Machine machine = with("podman");
  EXPECT_EQ(machine.run({"--container", "i", "nvidia-smi"}).command.program, "nvidia-smi");
  EXPECT_EQ(machine.run({"--container", "i", "/opt/app/train.py"}).command.argv,
            (Words{"/opt/bin/python", "-u", "/opt/app/train.py"}));
  EXPECT_EQ(machine.run({"--container", "i", "/opt/app/tool"}).command.program, "/opt/app/tool");
  EXPECT_THAT(machine.error({"--container", "i", "absent.py"}), HasSubstr("'absent.py' does not exist"));
  // Elsewhere than here nobody can tell.
  EXPECT_EQ(machine.error({"--container", "i", "--container-workdir", "/app", "absent.py"}), "accepted");
}

TEST(JobContainer, AnImageWithoutPythonIsRefusedForScripts) {
  Machine machine = with("podman");
  machine.image_python = "";
  EXPECT_THAT(machine.error({"--container", "i", "train.py"}), HasSubstr("neither python nor python3"));
  EXPECT_EQ(machine.error({"--container", "i", "hostname"}), "accepted");
}

TEST(JobContainer, BadInputIsRefused) {
  const Machine machine = with("podman");
  EXPECT_EQ(machine.error({"--mount", "/a:/b", "train.py"}),
            "--mount needs a container; name its image with --container");
  EXPECT_THAT(machine.error({"--container", "", "train.py"}), HasSubstr("--container: it is empty"));
  EXPECT_THAT(machine.error({"--container", "i", "--mount", "/a", "train.py"}),
              HasSubstr("--mount: '/a' does not say"));
  EXPECT_THAT(machine.error({"--container", "i", "--container-workdir", "w", "train.py"}),
              HasSubstr("--container-workdir: 'w' is not a directory inside"));
  EXPECT_THAT(machine.error({"--container", "missing", "train.py"}), HasSubstr("there is no image missing"));
  EXPECT_THAT(machine.error({"--container", "i", "--container-runtime", "enroot", "train.py"}),
              HasSubstr("there is no enroot on PATH"));
  EXPECT_THAT(Machine().error({"--container", "i", "train.py"}), HasSubstr("there is no container runtime on PATH"));
}

TEST(JobContainer, ALauncherLeavesTheContainerToTheNodes) {
  const Machine machine;  // which has no runtime at all
  auto plan = machine.plan(Verb::kRun, {"--hosts", "n1,n2", "--container", "i", "train.py"});
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_FALSE(machine.container_request);
  EXPECT_THAT(machine.error({"--hosts", "n1", "--container", "i", "--mount", "/a", "train.py"}), HasSubstr("--mount"));
}

TEST(JobContainer, ADryRunPreparesNothing) {
  const Machine machine = with("podman");
  machine.run({"--dry-run", "--container", "i", "train.py"});
  EXPECT_TRUE(machine.container_request->dry);
}

}  // namespace
}  // namespace muster::cli::test
