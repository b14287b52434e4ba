"""The seeds that run in Slurm: each with nothing but the launcher's name replaced, and as one line in a bare batch script."""

import pytest

from . import surroundings
from .seed import HERE, Seed
from .terminal import Terminal
from .workers import assert_job

HELLO, TRAIN, ACCELERATED = (HERE / "programs" / name for name in ("hello.py", "train.py", "accelerated.py"))


def show(seed):
    """With -rP, or where the test fails."""
    print(seed.diff())


@pytest.fixture
def conda(slurm):
    """conda(python, *environments): in the home directory."""

    def make(python, *environments):
        surroundings.make_conda(slurm.cluster.home / "miniforge3", python, *environments)

    return make


def test_launch_word_replaced(slurm, conda, torch_old):
    seed = Seed("1-launch")
    show(seed)
    conda(torch_old, "pytorch-1.7.1")
    surroundings.put(slurm.directory, {**seed.replaced(), "main.py": TRAIN})
    text = slurm.sbatch("task.slurm")
    workers = assert_job(text, ["n1", "n2"], 4)
    assert workers[5].args == ["--local_rank=1", "--batch_size", "128", "--learning_rate", "5e-5"], text


# As it is written, and where SLURM_GPUS_PER_NODE is "v100:4".
@pytest.mark.parametrize("options", [[], ["--gres=gpu:v100:4", "--gpus-per-node=v100:4"]], ids=["4", "v100:4"])
def test_srun_word_replaced(slurm, options):
    seed = Seed("7-srun")
    show(seed)
    surroundings.put(slurm.directory, {**seed.replaced(), "training_script.py": HELLO})
    text = slurm.sbatch("job.sh", *options)
    assert_job(text, ["n1", "n2", "n3"], 4, in_order=False)


@pytest.fixture
def project(slurm, conda):
    """project(python, program) -> environment: what the salloc seed expects in the home directory, and of its modules."""

    def make(python, program):
        conda(python, "PytorchDDPExample")
        directory = slurm.cluster.home / "project"
        surroundings.put(directory, {**Seed("6-salloc").replaced(), "train.py": program})
        modules = slurm.directory / "modules"
        surroundings.make_modules(modules, {"anaconda3": [f"prepend-path PATH {slurm.cluster.home}/miniforge3/bin"]})
        return surroundings.module_variables(modules)

    return make


def typed_lines(script):
    """What is typed: commands with their continuations, without comments."""
    lines = [line for line in script.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    return [" ".join(line.split()) for line in lines]


def type_all(slurm, script, env):
    """Everything of a session; what it said, and the last shells left."""
    terminal = Terminal(slurm.cluster, "ctl", {**slurm.variables(), **env}, slurm.directory)
    said = "".join(terminal.type(line) for line in typed_lines(script))
    if "--pty" in script:  # the last exit was of the shell on the node; salloc's is still there
        said += terminal.type("exit")
    assert terminal.leave() == 0, said
    return said


@pytest.mark.parametrize("session, nodes", [("one_node", 1), ("two_nodes", 2)])
def test_salloc_word_replaced(slurm, project, torch_new, session, nodes):
    """The GPUs of a node, then two nodes: typed into a terminal as the text says. (Its one process has no launcher.)"""
    show(Seed("6-salloc"))
    env = project(torch_new, TRAIN)
    script = Seed("6-salloc").replaced()[f"{session}.sh"]
    said = type_all(slurm, script, env)
    assert_job(said, ["n1", "n2"][:nodes], 2, in_order=False)
    # $HOSTNAME, which the text wants replaced by hand.
    assert "ctl is where the job was submitted" in said, said


def test_salloc_as_a_batch_job(slurm, project, torch_new):
    env = project(torch_new, HELLO)
    command = ["--output=output.out", "-N2", "--cpus-per-task=16", "--mem=32GB", "--gpus=v100:4"]
    text = slurm.sbatch(slurm.cluster.home / "project/train.sh", *command, env=env)
    assert_job(text, ["n1", "n2"], 2, in_order=False)


@pytest.mark.slow
def test_accelerate_word_replaced(slurm, torch_new):
    seed = Seed("2-accelerate")
    show(seed)
    files = {"setup_env.sh": f"export PATH={torch_new.bin_dir}:$PATH\n", "my_huggingface_trainer.py": ACCELERATED}
    surroundings.put(slurm.directory, {**seed.replaced(), **files})
    text = slurm.sbatch("submit.sh")
    assert_job(text, ["n1", "n2"], 2, in_order=False)
    assert "--machine_rank 0 is ignored: Slurm says that this is machine 1" in text, "what was forgiven is said"


def after(name):
    return Seed(name).scripts("after")


@pytest.mark.parametrize("nodes", [2, 3])
def test_launch_after(slurm, conda, torch_old, nodes):
    """The number of nodes is Slurm's business alone: the script does not change with it."""
    conda(torch_old, "pytorch-1.7.1")
    surroundings.put(slurm.directory, {**after("1-launch"), "main.py": HELLO})
    text = slurm.sbatch("job.sh", f"--nodes={nodes}")
    workers = assert_job(text, ["n1", "n2", "n3"][:nodes], 4)
    assert workers[5].args == ["--batch_size", "128", "--learning_rate", "5e-5"], text


@pytest.mark.slow
def test_accelerate_after(slurm, torch_new):
    files = {"setup_env.sh": f"export PATH={torch_new.bin_dir}:$PATH\n", "my_huggingface_trainer.py": ACCELERATED}
    surroundings.put(slurm.directory, {**after("2-accelerate"), **files})
    assert_job(slurm.sbatch("job.sh"), ["n1", "n2"], 2)
    (kept,) = (slurm.directory / "records").glob("*/scheduler.txt")
    assert "JobId=" in kept.read_text()


def test_salloc_after(slurm, project, torch_new):
    env = project(torch_new, TRAIN)
    surroundings.put(slurm.cluster.home / "project", after("6-salloc"))
    said = type_all(slurm, after("6-salloc")["session.sh"], env)
    assert_job(said, ["n1", "n2"], 2)


@pytest.mark.parametrize(
    "options, nodes, per_node",
    [(["--nodes=1", "--gpus-per-node=v100:1"], 1, 1), (["--nodes=1"], 1, 2), ([], 2, 2)],
    ids=["one_process", "one_node", "two_nodes"],
)
def test_salloc_after_as_a_batch_job(slurm, project, torch_new, options, nodes, per_node):
    """From one process to two nodes the script does not change."""
    env = project(torch_new, HELLO)
    surroundings.put(slurm.directory, {**after("6-salloc"), "train.py": HELLO})
    assert_job(slurm.sbatch("train.sh", *options, env=env), ["n1", "n2"][:nodes], per_node)


@pytest.mark.parametrize("nodes", [2, 3])
def test_srun_after(slurm, nodes):
    surroundings.put(slurm.directory, {**after("7-srun"), "training_script.py": HELLO})
    assert_job(slurm.sbatch("job.sh", f"--nodes={nodes}"), ["n1", "n2", "n3"][:nodes], 4)


def test_gpus_shared_out_unequally(slurm):
    """--gpus=v100:4 of the salloc seed, for two nodes: Slurm gives three on one and one on the other."""
    script = "#!/bin/bash\n#SBATCH -N2\n#SBATCH --gpus=v100:4\n#SBATCH --output=job.out\nmuster run train.py\n"
    surroundings.put(slurm.directory, {"job.sh": script, "train.py": HELLO})
    assert_job(slurm.sbatch("job.sh"), ["n1", "n2"], [3, 1])


def test_a_failure_is_the_jobs(slurm, conda, torch_old):
    """The launch seed's `& wait` loses the exit code whatever the launcher does; one line does not."""
    conda(torch_old, "pytorch-1.7.1")
    program = "import os, sys\nsys.exit(7 if os.environ['RANK'] == '5' else 0)\n"
    surroundings.put(slurm.directory, {**Seed("1-launch").replaced(), **after("1-launch"), "main.py": program})
    assert slurm.submit("task.slurm") == 0
    assert slurm.submit("job.sh") == 7
    assert "rank 5" in slurm.output()
