"""Fixtures of the seeds' tests: one cluster with Slurm for all of them, and a directory for each."""

import shutil

import pytest

from multinode.conftest import look_around
from multinode.harness import Cluster

from .slurm import Slurm


@pytest.fixture(scope="package")
def seed_cluster(muster, tmp_path_factory):
    if reason := look_around():
        pytest.skip(reason)
    if not shutil.which("sbatch"):
        pytest.skip("no sbatch: make setup could not install it")
    options = {"slurm": True, "gpu_type": "v100", "cpus": 16, "private": ["/var/tmp"]}  # where containers are kept
    cluster = Cluster(muster, tmp_path_factory.mktemp("seeds"), 3, **options)
    yield cluster
    cluster.close()


@pytest.fixture
def slurm(seed_cluster, request):
    """A Slurm with a directory of this test's own. When the test is over nothing is left of its jobs."""
    slurm = Slurm(seed_cluster, seed_cluster.shared / request.node.name)
    yield slurm
    slurm.end()
