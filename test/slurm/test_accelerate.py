"""`muster accelerate launch` on a real Slurm: a script with Accelerator() trains on two nodes to the loss it has on one."""

import re

import pytest

from harness import ROOT

TRAIN = ROOT / "test/interop/workers/accelerate_train.py"
SHOW = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $(hostname) cpu=$ACCELERATE_USE_CPU"
WITHIN_S = 150  # three imports of torch on a busy machine


@pytest.fixture
def show(tmp_path):
    path = tmp_path / "show.sh"
    path.write_text(f"#!/bin/sh\n{SHOW}\n")
    path.chmod(0o755)
    return str(path)


def losses(ended):
    return re.findall(r"loss (\S+)", ended.out)


def test_training_on_two_nodes_comes_to_the_same(slurm, accelerate):
    """As the well-known script has it, `srun` and every flag; then with none."""
    two = slurm(2)
    env = {"HF_HOME": two.cluster.shared}
    by_hand = f"""
        head_node_ip=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
        srun {two.muster} accelerate launch --num_processes=$((SLURM_NNODES * 1)) --num_machines="$SLURM_NNODES" \\
          --rdzv_backend=c10d --main_process_ip="$head_node_ip" --main_process_port=29507 \\
          --machine_rank="$SLURM_NODEID" {TRAIN}
    """
    bare = f"{two.muster} accelerate launch {TRAIN}"
    alone = two.batch(f"{two.muster} accelerate launch --cpu {TRAIN}", "-N1", python=accelerate, env=env, within=WITHIN_S)
    assert alone.code == 0 and "rank 0 of 1 NO" in alone.out, alone
    for script in (by_hand, bare):
        ended = two.batch(script, "-N2", "--ntasks-per-node=1", python=accelerate, env=env, within=WITHIN_S)
        assert ended.code == 0, ended
        assert "rank 0 of 2 MULTI_CPU" in ended.out and "rank 1 of 2 MULTI_CPU" in ended.out, ended
        assert losses(ended) == losses(alone), ended


@pytest.mark.parametrize(
    "options",
    [
        "--num_processes=5",
        "--num_processes=5 --num_machines=2",
        "--num_processes=5 --num_machines=2 --machine_rank=$NO_SUCH_VARIABLE",
        "--num_processes=5 --num_machines=2 --machine_rank=$SLURM_NODEID --main_process_ip=n1",
        "--num_processes=5 --num_machines=2 --rdzv_backend=c10d --same_network --main_process_ip=n1",
    ],
)
@pytest.mark.parametrize("prefix", ["srun ", ""], ids=["step", "batch script"])
def test_five_processes_on_two_nodes(slurm, show, prefix, options):
    two = slurm(2)
    ended = two.batch(f"{prefix}{two.muster} accelerate launch --label none {options} --no_python {show}", "-N2",
                      "--ntasks-per-node=1", env={"HF_HOME": two.cluster.shared})
    assert ended.code == 0, ended
    places = [line.split() for line in ended.lines]
    assert [p[0] for p in places] == [f"{rank}/5" for rank in range(5)], ended
    assert sorted(p[2] for p in places) == ["n1", "n1", "n1", "n2", "n2"], ended
    assert all(p[3] == "cpu=True" for p in places), ended
