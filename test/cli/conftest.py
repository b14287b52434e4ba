"""Fixtures of the tests of the program alone."""

import os

import pytest

from cli.terminal import Terminal


@pytest.fixture
def terminal(start_muster):
    """terminal(args, rows=24, columns=80, **popen) -> Terminal, closed at the end."""
    opened = []

    def open_one(args, **kwargs):
        opened.append(Terminal(start_muster, args, **kwargs))
        return opened[-1]

    yield open_one
    for one in opened:
        os.close(one.master)
