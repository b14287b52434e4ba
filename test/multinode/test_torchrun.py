"""PyTorch's own launcher on two nodes: the lab and the workers are right when the peer is content with them."""

import re

import pytest

from harness import ROOT

from .harness import WORKERS

pytestmark = pytest.mark.interop
DDP = [ROOT / "examples/ddp.py", "--epochs", "2", "--points", "512"]


def torchrun(cluster, name, python, args, **more):
    logs = ["--log-dir", cluster.shared / name]  # else it leaves a directory in /tmp
    return cluster.exec(name, [python, "-m", "torch.distributed.run", *logs, *args], python=python, **more)


def losses(text):
    """The epoch lines of examples/ddp.py."""
    return re.findall(r"^ +(\d+)  ([\d.]+) +([\d.]+%)", text, re.M)


@pytest.mark.slow
@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_ddp(lab, torch_new, rendezvous):
    cluster = lab(2)
    head = cluster.address("n1")
    jobs = []
    for rank, name in enumerate(cluster.names):
        how = {
            "static": ["--node-rank", rank, "--master-addr", head, "--master-port", 29500],
            "c10d": ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{head}:29500", "--rdzv-id", "7"],
        }[rendezvous]
        args = ["--nnodes", 2, "--nproc-per-node", 1, *how, *DDP]
        jobs.append(torchrun(cluster, name, torch_new, args, env={"OMP_NUM_THREADS": 1}))
    assert [job.end(120) for job in jobs] == [0, 0], "\n".join(job.said() for job in jobs)
    assert sorted(len(losses(job.out)) for job in jobs) == [0, 2], "rank 0 alone speaks"


def test_workers_of_the_tests(lab, torch_new, beats):
    """beat.py with its own store client, on the peer's store."""
    cluster = lab(2)
    static = ["--nnodes", 2, "--nproc-per-node", 1, "--master-addr", cluster.address("n1"), "--master-port", 29500]
    jobs = [
        torchrun(cluster, name, torch_new, [*static, "--node-rank", rank, WORKERS / "beat.py", beats.directory])
        for rank, name in enumerate(cluster.names)
    ]
    lives = beats.wait_round(0, 2, within=60)
    assert [life.host for life in lives] == ["n1", "n2"]
    beats.tell("all", "exit 0")
    assert [job.end(60) for job in jobs] == [0, 0], "\n".join(job.said() for job in jobs)
    beats.assert_one_round_at_a_time()
