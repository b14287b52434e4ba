"""Fixtures of the tests on several nodes: real ones, in namespaces of this machine."""

import functools

import pytest

from .beats import Beats
from .harness import NOTICED_WITHIN_S, Cluster, remove_stale_labs, why_no_nodes


@functools.lru_cache(maxsize=None)
def look_around():
    """Why there can be no nodes here; None if there can."""
    remove_stale_labs()
    return why_no_nodes()


@pytest.fixture
def lab(muster, tmp_path):
    """lab(N, **options) -> Cluster of N nodes (see harness.py); down again when the test is over, whatever happened.

    A test that passed must have left nothing on any node that is still up, a second after its jobs have ended.
    """
    reason = look_around()
    if reason:
        pytest.skip(reason)
    made = []

    def make(count, **options):
        cluster = Cluster(muster, tmp_path, count, **options)
        made.append(cluster)
        return cluster

    yield make
    try:
        for cluster in made:
            running = [job for job in cluster.jobs if job.running]
            for job in cluster.jobs:
                job.abandon()
            cluster.assert_nothing_left(NOTICED_WITHIN_S if running else None)
    finally:
        for cluster in made:
            cluster.close()


@pytest.fixture
def beats(tmp_path):
    return Beats(tmp_path / "beats")
