"""`muster run` as the one line of a batch script, or under salloc: agents on every node, with all that the job has there."""

import re

import pytest

from multinode.harness import BEAT, HOME
from multinode.job import wait_for

from .jobs import WITHIN_S

SHOW = """
import os, socket
names = "RANK WORLD_SIZE LOCAL_WORLD_SIZE CUDA_VISIBLE_DEVICES HOSTNAME"
names += " SLURM_NODEID SLURMD_NODENAME SLURM_CPUS_PER_TASK SLURM_JOB_NAME SLURM_JOB_GPUS SLURM_STEP_GPUS"
print(socket.gethostname(), *(f"{n}={os.environ.get(n)}" for n in names.split()), f"cpus={len(os.sched_getaffinity(0))}")
"""


@pytest.fixture
def show(tmp_path):
    path = tmp_path / "show.py"
    path.write_text(SHOW)
    return path


def shown(ended):
    """{host: [variables of each worker]} of show.py."""
    found = {}
    for line in ended.lines:
        host, *words = re.sub(r"^\[\S+\] ", "", line).split()
        found.setdefault(host, []).append(dict(word.split("=", 1) for word in words))
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_one_line(slurm, beats, count):
    lab = slurm(count, gpus=0)
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", f"-N{count}")
    lives = beats.wait_round(0, count)
    assert [life.host for life in lives] == lab.cluster.names
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert (ended.code, ended.complaints) == (0, ""), ended


def test_the_workers_exit_code_is_the_jobs(slurm, beats):
    lab = slurm(2, gpus=0)
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", "-N2")
    beats.wait_round(0, 2)
    beats.tell(1, "exit 7")
    ended = batch.end()
    assert ended.code == 7, ended
    assert "rank 1" in ended.err and "n2" in ended.err and "srun:" not in ended.err, ended


def test_pytorch_trains(slurm, torch_new, tmp_path):
    lab = slurm(3, gpus=0)
    train = tmp_path / "train.py"
    train.write_text(
        "import torch, torch.distributed as dist, torch.distributed.nn\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "dist.init_process_group('gloo')\n"
        "torch.manual_seed(dist.get_rank())\n"
        "model = DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "for _ in range(3): model(torch.randn(8, 4)).square().mean().backward()\n"
        "print('gradient', round(model.module.weight.grad.sum().item(), 6), dist.get_world_size())\n"
        "del model  # or it holds the group, whose threads then outlive it\n"
        "dist.destroy_process_group()\n"
    )
    ended = lab.batch(f"{lab.muster} run --label none {train}", "-N3", python=torch_new, within=120,
                      env={"RES_OPTIONS": "timeout:1 attempts:2"})
    assert ended.code == 0, ended
    assert len(ended.lines) == 3 and len(set(ended.lines)) == 1 and ended.lines[0].endswith(" 3"), ended


def test_each_node_has_what_is_its_own(slurm, show):
    """GPUs that the scheduler has divided unevenly, and variables that srun gets wrong."""
    lab = slurm(2)
    ended = lab.batch(f"{lab.muster} run {show}", "-N2", "--gpus=4", "-c2", "--job-name=mine")
    assert ended.code == 0, ended
    nodes = shown(ended)
    assert {host: len(workers) for host, workers in nodes.items()} == {"n1": 3, "n2": 1}, ended
    for position, (host, devices) in enumerate((("n1", "0,1,2"), ("n2", "0"))):
        for worker in nodes[host]:
            assert worker["WORLD_SIZE"] == "4" and worker["SLURM_CPUS_PER_TASK"] == "2"
            assert worker["CUDA_VISIBLE_DEVICES"] == worker["SLURM_STEP_GPUS"] == devices
            assert worker["SLURM_JOB_GPUS"] in ("None", devices)
            assert worker["SLURM_NODEID"] == str(position)
            assert worker["SLURM_JOB_NAME"] == "mine"
            assert worker["SLURMD_NODENAME"] == worker["HOSTNAME"] == host


def test_the_script_itself_is_submitted(slurm):
    """`sbatch train.py`: Slurm's copy of it is on the first node alone; what it imports lies where it was submitted."""
    lab = slurm(2, gpus=0)
    lab.file("beside.py", "VALUE = 7\n", 0o644)
    train = lab.file("train.py", (
        f"#!/usr/bin/env -S {lab.muster} run --nproc-per-node 2 --label none\n"
        "#SBATCH --nodes=2\n"
        "import os, socket, sys\n"
        "import beside\n"
        "print(socket.gethostname(), os.environ['RANK'], beside.VALUE, *sys.argv[1:])\n"
    ))
    spool = lab.cluster.directory / "spool/n1"
    hidden = lab.cluster.exec("n2", ["mount", "-t", "tmpfs", "none", spool])
    assert hidden.end() == 0, hidden.said()
    ended = lab.submit_file(train, "--lr", "1", cwd=lab.cluster.shared).end()
    assert ended.code == 0, ended
    assert ended.lines == ["n1 0 7 --lr 1", "n1 1 7 --lr 1", "n2 2 7 --lr 1", "n2 3 7 --lr 1"], ended


def test_srun_in_the_first_line_of_the_script(slurm):
    lab = slurm(2, gpus=0)
    train = lab.file("train.py", (
        f"#!/usr/bin/env -S srun {lab.muster} run --join-timeout 3\n"
        "#SBATCH --nodes=2\n"
    ))
    hidden = lab.cluster.exec("n2", ["mount", "-t", "tmpfs", "none", lab.cluster.directory / "spool/n1"])
    assert hidden.end() == 0, hidden.said()
    ended = lab.submit_file(train).end()
    assert ended.code == 127, ended
    assert "slurm_script' does not exist on n2: it is Slurm's copy of the batch script" in ended.err, ended
    assert "leave srun out: muster starts the nodes itself" in ended.err, ended


def test_devices_that_were_chosen_for_a_command(slurm, show):
    """Two commands side by side, each with half of the GPUs of every node."""
    lab = slurm(2)
    line = f"{lab.muster} run {show}"
    ended = lab.batch(f"CUDA_VISIBLE_DEVICES=0,1 {line} & CUDA_VISIBLE_DEVICES=2,3 {line} & wait", "-N2", "--gpus-per-node=4")
    assert ended.code == 0, ended
    for host, workers in shown(ended).items():
        assert sorted(worker["CUDA_VISIBLE_DEVICES"] for worker in workers) == ["0,1"] * 2 + ["2,3"] * 2, ended
        assert {worker["WORLD_SIZE"] for worker in workers} == {"4"}, (host, ended)
    refused = lab.batch(f"CUDA_VISIBLE_DEVICES=1,2 {line}", "-N2", "--gpus=4")
    assert refused.code == 2, refused
    assert "the job has no device 1 on n2, where Slurm has set 0" in refused.err, refused


def test_devices_that_look_like_those_of_slurm(slurm, show):
    """The job has two GPUs, and they are not the first two: a choice of these is the user's, and refused."""
    lab = slurm(2)
    other = lab.submit("echo has them; sleep 600", "-N2", "--gpus-per-node=2")
    wait_for("the job that has the first two GPUs", lambda: "has them" in other.out, WITHIN_S)
    line = f"{lab.muster} run {show}"
    ended = lab.batch(line, "-N2", "--gpus-per-node=2")
    assert ended.code == 0 and "VISIBLE_DEVICES" not in ended.err, ended
    assert {worker["CUDA_VISIBLE_DEVICES"] for workers in shown(ended).values() for worker in workers} == {"2,3"}, ended
    refused = lab.batch(f"export CUDA_VISIBLE_DEVICES=0,1; {line}", "-N2", "--gpus-per-node=2")
    assert refused.code == 2, refused
    assert "where Slurm has set 2,3" in refused.err, refused
    other.control("scancel")
    other.end()


@pytest.mark.parametrize(
    "request_, each",
    [(["--exclusive", "--gres=gpu:1"], 4), (["--gpus-per-task=1", "--ntasks-per-node=2"], 2), (["--gpus-per-node=3"], 3)],
    ids=["exclusive", "per-task", "per-node"],
)
def test_all_gpus_of_the_job_are_used(slurm, show, request_, each):
    lab = slurm(2)
    ended = lab.batch(f"{lab.muster} run {show}", "-N2", *request_)
    assert ended.code == 0, ended
    assert {host: len(workers) for host, workers in shown(ended).items()} == {"n1": each, "n2": each}, ended


def test_the_step_does_not_narrow_the_cores(slurm, show):
    """Variables of the script that would shape another srun do not shape ours."""
    lab = slurm(2, gpus=0, conf=["TaskPlugin=task/affinity"])
    hinder = "export SLURM_CPU_BIND=rank SLURM_HINT=nomultithread SRUN_CPUS_PER_TASK=1 SLURM_EXACT=1 SLURM_EXPORT_ENV=NONE"
    script = f"{hinder}\nnproc --all > {lab.cluster.shared}/all\n{lab.muster} run {show}"
    ended = lab.batch(script, "-N2", "--exclusive")
    assert ended.code == 0, ended
    everything = (lab.cluster.shared / "all").read_text().strip()
    assert {w["cpus"] for workers in shown(ended).values() for w in workers} == {everything}, ended


def test_salloc(slurm, show):
    """Its shell is on no node of the job, and knows nothing of GPUs."""
    lab = slurm(2)
    ended = lab.run("salloc", "-N2", "--gpus=3", lab.muster, "run", show)
    assert ended.code == 0, ended
    assert {host: len(workers) for host, workers in shown(ended).items()} == {"n1": 2, "n2": 1}, ended


def test_a_program_that_only_the_first_node_has(slurm, beats):
    lab = slurm(3, gpus=0)
    for name in ("n2", "n3"):
        lab.cluster.replace_program(name)
    refused = lab.batch(f"{lab.muster} run --push-binary never --join-timeout 20 {BEAT} {beats.directory}", "-N3")
    assert refused.code == 125, refused
    assert "no muster" in refused.err and "--push-binary" in refused.err, refused
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", "-N3")
    beats.wait_round(0, 3)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert (ended.code, ended.complaints) == (0, ""), ended


def test_without_a_shared_home_munge_is_enough(slurm, beats):
    lab = slurm(2, gpus=0)
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", "-N2", env={"HOME": HOME})
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert ended.code == 0, ended
    for name in lab.cluster.names:
        assert not (lab.cluster.root(name) / HOME.lstrip("/") / ".config/muster/key").exists()


def test_without_munge_the_users_key_is_enough(slurm, beats):
    """Slurm has a munged of its own, on a socket that others do not know."""
    lab = slurm(2, gpus=0, conf=["AuthInfo=cred_expire=5,socket=/run/munge/slurm.socket"])
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", "-N2")
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert ended.code == 0, ended
    assert (lab.cluster.home / ".config/muster/key").exists()


@pytest.mark.parametrize("only", ["n1", "n2", "n[12]"])
def test_a_node_that_cannot_be_set_up_is_exit_code_2(slurm, only):
    lab = slurm(2, gpus=0)
    setup = lab.file("setup.sh", f"echo hello >&2\ncase $(uname -n) in {only}) ls /no/such/place;; esac\n")
    ended = lab.batch(f"{lab.muster} run --prologue {setup} echo started", "-N2")
    assert (ended.code, ended.out) == (2, ""), ended
    assert re.search(r"echo failed: .* can join; n[12](, n2)?: line 2 of .*setup.sh", ended.err), ended
    assert len(re.findall("line 2 of .*setup.sh", ended.err)) == 1, ended


def test_without_either_it_says_so(slurm, beats):
    lab = slurm(2, gpus=0, conf=["AuthInfo=cred_expire=5,socket=/run/munge/slurm.socket"])
    ended = lab.batch(f"{lab.muster} run --join-timeout 20 {BEAT} {beats.directory}", "-N2", env={"HOME": HOME})
    assert ended.code == 125, ended
    assert "n2" in ended.err and "does not share its home directory" in ended.err, ended
