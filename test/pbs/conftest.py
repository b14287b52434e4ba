"""Fixtures of the tests in a PBS job: the nodes of the lab with stand-ins for PBS."""

import pytest

from multinode.conftest import beats, lab  # noqa: F401  (fixtures)

from .pbs import Pbs


@pytest.fixture
def pbs(lab):  # noqa: F811
    """pbs(N, **options of Pbs) -> Pbs on N nodes."""

    def make(count, **options):
        return Pbs(lab(count), **options)

    return make
