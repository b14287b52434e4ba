"""tools/setup: what it finds, what it leaves alone, what it says."""

import os
import subprocess

import pytest

from harness import ROOT

pytestmark = pytest.mark.cli


@pytest.fixture
def setup(tmp_path):
    """setup(group, VARIABLE=…) -> what it says. Every package is there, and nothing can be fetched."""
    stand_ins = tmp_path / "bin"
    stand_ins.mkdir()
    for name, text in {
        "dpkg-query": 'shift 3; printf "installed %s\\n" "$@"',
        "apt-get": "exit 1",
        "sudo": "exit 1",
    }.items():
        (stand_ins / name).write_text(f"#!/bin/sh\n{text}\n")
        (stand_ins / name).chmod(0o755)

    def run(group, **env):
        env = {**os.environ, "PATH": f"{stand_ins}:{os.environ['PATH']}", **{k: str(v) for k, v in env.items()}}
        done = subprocess.run([ROOT / "tools/setup", group], capture_output=True, text=True, env=env, timeout=60)
        assert done.returncode == 0, done
        return done.stderr

    return run


@pytest.fixture
def venv(tmp_path):
    """venv(torch, accelerate) -> a virtual environment as far as tools/setup looks at one; its pip says that it was called."""

    def make(torch, accelerate="1.15.0"):
        packages = tmp_path / "venv/lib/python3.11/site-packages"
        for name in (f"torch-{torch}.dist-info", "torch", f"accelerate-{accelerate}.dist-info"):
            (packages / name).mkdir(parents=True)
        (packages / "torch/version.py").write_text(f"__version__ = '{torch}'\n")
        (tmp_path / "venv/bin").mkdir()
        (tmp_path / "venv/bin/pip").write_text("#!/bin/sh\necho pip was called >&2\n")
        (tmp_path / "venv/bin/pip").chmod(0o755)
        return tmp_path / "venv"

    return make


@pytest.mark.parametrize("torch", ["2.13.0", "2.13.0+cpu"])
def test_nothing_is_missing(setup, venv, torch):
    assert setup("bench", MUSTER_VENV=venv(torch)) == ""


def test_another_torch_is_named_and_left_as_it_is(setup, venv):
    mine = venv("2.12.1")
    said = setup("bench", MUSTER_VENV=mine)
    assert said.startswith(f"setup: {mine} is yours and has another torch than 2.13.0: left as it is;") and "pip" not in said


def test_what_is_fetched_is_named_with_its_size(setup, venv, tmp_path):
    said = setup("test", MUSTER_VENV=venv("2.13.0", accelerate="1.0.0"), MUSTER_LMOD=tmp_path / "lmod").splitlines()
    assert [line for line in said if line.startswith("setup: adding accelerate 1.15.0 ") and " MB to download" in line]
    assert [line for line in said if line.startswith("setup: unpacking lmod ") and " MB to download" in line]
    assert said[-1] == "setup: lmod could not be fetched: the tests that need it will be skipped, and say so"
