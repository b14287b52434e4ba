"""qsig -s suspend and resume: PBS stops what is in the job's sessions on every node, and continues it later."""

import os
import pathlib
import time

import pytest

from multinode.harness import BEAT
from multinode.job import wait_for

LEASE_S = 5  # the nodes are stopped and continued one after the other: on a busy machine, seconds apart


@pytest.fixture
def muster_path(muster):
    return os.path.dirname(muster)


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def states(cluster):
    return {name: [state(pid) for pid in cluster.workers(name)] for name in cluster.names}


@pytest.mark.slow
def test_a_suspended_job_goes_on_where_it_was(pbs, beats, muster_path):
    """Its workers stop too, though they have sessions of their own, and no node counts as lost however long it takes."""
    p = pbs(2, path=[muster_path])
    command = f"muster run --lease {LEASE_S} {BEAT} {beats.directory}"
    job = p.qsub(f"#!/bin/bash\ncd $PBS_O_WORKDIR\n{command}\n")
    beats.wait_round(0, 2)
    job.suspend()
    stopped = {name: ["T"] for name in p.cluster.names}
    wait_for(lambda: f"the workers to stop: {states(p.cluster)}\n{job.said()}", lambda: states(p.cluster) == stopped)
    time.sleep(LEASE_S + 2)  # longer than silence is tolerated; there is no event
    assert states(p.cluster) == stopped
    resumed = time.monotonic()
    job.resume()
    for rank in (0, 1):
        beats.wait_beat(0, rank, resumed)
    time.sleep(LEASE_S)  # a node that counts as lost would be given up by now
    beats.tell("all", "exit 0")
    assert job.end() == 0, job.said()
    assert {life.round for life in beats.lives()} == {0}, job.said()
    assert "lost" not in job.err, job.said()
    p.cluster.assert_nothing_left()
