"""muster itself in a container: it needs glibc alone, and finds the job by its options and environment."""

import os
import pathlib
import shutil
import subprocess

import pytest

from harness import clean_env, free_port

pytestmark = pytest.mark.multiprocess


@pytest.fixture
def inside(muster, charliecloud, job_dir, job_marker):
    """inside(args) -> Popen of muster in a container that has no muster and none of its libraries but glibc."""
    program = pathlib.Path(shutil.copy(muster, job_dir / "muster"))
    started = []

    def start(args, **env):
        process = subprocess.Popen(
            ["ch-run", f"--cd={job_dir}", charliecloud.root, "--", program, *args],
            env=clean_env(USER=os.environ.get("USER") or "root", MUSTER_TEST_JOB=job_marker, TMPDIR=None,
                          **{"PATH": "/usr/local/bin:/usr/bin:/bin", **env}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_alone(inside):
    job = inside(["run", "--nproc-per-node", "2", "meet.py"])
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    assert out.count("store says 4711") == 2


@pytest.mark.parametrize("verb, env", [("run", {"MUSTER_TOKEN": "between us"}), ("torchrun", {})])
def test_two_by_hand(inside, verb, env):
    """The containers of a script that starts one a node, each with torchrun inside."""
    port = free_port()
    jobs = [
        inside([verb, "--standalone", "--nnodes", "2", "--nproc_per_node", "1", "--node_rank", str(rank),
                "--master_addr", "127.0.0.1", "--master_port", str(port), "meet.py"], **env)
        for rank in (0, 1)
    ]  # fmt: skip
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
        assert out.count("store says 4711") == 1
