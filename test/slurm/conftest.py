"""Fixtures of the tests inside Slurm: its real daemons on real nodes, in namespaces of this machine."""

import pathlib
import shutil

import pytest

from multinode.conftest import lab  # noqa: F401  (a fixture)

from .jobs import Slurm


def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.multinode)


@pytest.fixture
def slurm(lab):  # noqa: F811
    """slurm(N, **options) -> Slurm of N nodes n1 … nN beside ctl, where jobs are submitted (see jobs.py)."""
    missing = [program for program in ("slurmctld", "slurmd", "munged", "srun") if not find(program)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: make setup could not install it")
    return lambda count, **options: Slurm(lab(count, slurm=True, **options))


def find(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
