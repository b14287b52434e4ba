"""Fixtures of the tests in a PBS job: the nodes of the lab with stand-ins for PBS.

MUSTER_OPENPBS=USER: with the OpenPBS of /opt/pbs instead, and jobs of that user.
"""

import pytest

from multinode.conftest import beats, lab  # noqa: F401  (fixtures)

from . import openpbs
from .pbs import Pbs


@pytest.fixture
def pbs(lab):  # noqa: F811
    """pbs(N, **options of Pbs) -> Pbs on N nodes."""

    def make(count, **options):
        if openpbs.user():
            return openpbs.OpenPbs(lab(count, private=openpbs.PRIVATE), **options)
        return Pbs(lab(count), **options)

    return make
