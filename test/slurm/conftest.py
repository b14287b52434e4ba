"""Fixtures of the tests inside Slurm: its real daemons on real nodes, in namespaces of this machine."""

import shutil

import pytest

from multinode.conftest import beats, lab  # noqa: F401  (fixtures)

from .jobs import Slurm


@pytest.fixture
def slurm(lab):  # noqa: F811
    """slurm(N, **options) -> Slurm of N nodes n1 … nN beside ctl, where jobs are submitted (see jobs.py)."""
    missing = [program for program in ("slurmctld", "slurmd", "munged", "srun") if not find(program)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: make setup could not install it")
    return lambda count, **options: Slurm(lab(count, slurm=True, **options))


def find(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
