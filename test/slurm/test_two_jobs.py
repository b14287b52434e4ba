"""Two jobs of one user on the same nodes never become one, whatever port and id their scripts give."""

import re

import pytest

from multinode.harness import BEAT

SHARE = ("-w", "n1,n2", "-N2", "--ntasks-per-node=1", "--oversubscribe")
PORT = 29511

# As the first and the third of the well-known scripts have it, and a static one with a number for each node.
WAYS = {
    "c10d": f"--rdzv_backend=c10d --rdzv_id=12345 --rdzv_endpoint=n1:{PORT}",
    "elastic": f"--nnodes=1:2 --rdzv_backend=c10d --rdzv_id=12345 --rdzv_endpoint=n1:{PORT}",
    "static": f"--master_addr=n1 --master_port={PORT} --node_rank=$SLURM_NODEID",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_script_that_is_submitted_twice(slurm, beats, way):
    """The second is told whose port that is, runs nothing, and fails."""
    two = slurm(2, gpus=0)
    script = f"srun {two.muster} torchrun --nnodes=2 {WAYS[way]} {BEAT} {beats.directory}"
    first = two.submit(script, *SHARE)
    beats.wait_round(0, 2)
    second = two.submit(script, *SHARE).end()
    assert (second.code, second.state) == (1, "FAILED"), second
    whose = f"belongs to another job of yours: step 0 of Slurm job {first.id}"
    assert re.search(rf"n2: .*{whose}|{whose}", second.err), second
    assert "token differs" not in second.err + first.err, (second, first.err)
    beats.tell("all", "exit 0")
    ended = first.end()
    assert ended.code == 0, ended
    assert len(beats.lives()) == 2, beats.lives()


def test_a_port_that_was_not_chosen_gives_way(slurm):
    """Both jobs run side by side, each on both nodes."""
    two = slurm(2, gpus=0)
    meet = two.file(
        "meet.sh",
        f"#!/bin/sh\ncd {two.cluster.shared}\ntouch up.$SLURM_JOB_ID.$RANK\n"
        "for i in $(seq 2400); do [ $(ls up.* | wc -l) = 4 ] && break; sleep 0.05; done\n"
        "echo $RANK/$WORLD_SIZE $(hostname) $(ls up.* | wc -l)\n",
    )
    script = f"srun {two.muster} run --label none --rdzv-backend c10d --rdzv-id 12345 --rdzv-endpoint n1 {meet}"
    for job in [two.submit(script, *SHARE) for _ in range(2)]:
        ended = job.end()
        assert ended.code == 0, ended
        assert [line.split()[0] for line in ended.lines] == ["0/2", "1/2"], ended
        assert {line.split()[1] for line in ended.lines} == {"n1", "n2"}, ended
        assert {line.split()[2] for line in ended.lines} == {"4"}, ended


def test_one_job_of_two_needs_a_secret(slurm, beats):
    """Two jobs of one node each that the user wants as one."""
    two = slurm(2, gpus=0)
    script = (
        f"{two.muster} run --mode symmetric --nnodes 2 --rdzv-backend c10d --rdzv-id both --rdzv-endpoint n1:{PORT}"
        f" --join-timeout 60 {BEAT} {beats.directory}"
    )
    first, second = (two.submit(script, "-N1", "-w", name) for name in ("n1", "n2"))
    ended = second.end()
    assert ended.code == 125, ended
    assert f"belongs to another job of yours: Slurm job {first.id}; this is Slurm job {second.id}" in ended.err, ended
    assert "MUSTER_TOKEN" in ended.err, ended
    first.control("scancel")
    first.end()
    jobs = [two.submit(f"export MUSTER_TOKEN=ours\n{script}", "-N1", "-w", name) for name in ("n1", "n2")]
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    for job in jobs:
        ended = job.end()
        assert ended.code == 0, ended
