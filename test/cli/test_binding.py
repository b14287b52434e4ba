"""--numa-binding: the CPUs that workers really get, without numactl."""

import os
import re

import pytest

pytestmark = pytest.mark.multiprocess

SHOW_CPUS = ["--label", "rank", "--no-python", "/bin/grep", "Cpus_allowed_list", "/proc/self/status"]


def parse_ranges(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def cpus_by_rank(out):
    """{0: {0, 1}} of lines like `[0] Cpus_allowed_list:  0-1`"""
    return {int(line[1 : line.index("]")]): parse_ranges(line.split()[-1]) for line in out.splitlines()}


@pytest.fixture
def cpus():
    return os.sched_getaffinity(0)


@pytest.fixture
def cores(cpus):
    """How many cores the CPUs are: hardware threads of one core are never divided."""

    def siblings(cpu):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                return frozenset(parse_ranges(f.read().strip()) & cpus)
        except OSError:
            return cpu

    return len({siblings(cpu) for cpu in cpus})


@pytest.fixture
def halves(cpus):
    """Two CPUs, and the environment that makes hwloc take the machine for two sockets, each with one of them."""
    if len(cpus) < 2:
        pytest.skip("one CPU: a worker that is bound looks like one that is not")
    first, second = sorted(cpus)[:2]
    machine = f"package:2 numa:1 l3:1 core:1 pu:1(indexes={first},{second})"
    return first, second, {"HWLOC_SYNTHETIC": machine}


MODES = ["node", "socket", "exclusive", "core-complex"]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_binds(run_muster, halves, mode):
    """Each worker to its half of the machine: the real one may be one socket, whose CPUs workers have without binding."""
    first, second, env = halves
    result = run_muster(["run", "--nproc-per-node", 2, "--numa-binding", mode, *SHOW_CPUS], env=env)
    assert cpus_by_rank(result.stdout) == {0: {first}, 1: {second}}, result.stderr
    unbound = run_muster(["run", "--nproc-per-node", 2, *SHOW_CPUS], env=env)
    assert all(mine > {first} for mine in cpus_by_rank(unbound.stdout).values()), "the mask alone would do that"


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_stays_within_our_mask(run_muster, cpus, cores, mode):
    workers = min(2, cores)
    result = run_muster(["run", "--nproc-per-node", workers, "--numa-binding", mode, *SHOW_CPUS])
    assert result.returncode == 0, result.stderr
    given = cpus_by_rank(result.stdout)
    assert sorted(given) == list(range(workers))
    assert all(mine and mine <= cpus for mine in given.values())
    if mode == "exclusive":
        assert sum(map(len, given.values())) == len(set().union(*given.values()))


def test_a_narrower_mask_is_obeyed(run_muster, halves):
    """The half that the mask leaves out is given to no worker."""
    _, second, env = halves
    result = run_muster(["run", "--nproc-per-node", 2, "--numa-binding", "node", *SHOW_CPUS], env=env,
                        preexec_fn=lambda: os.sched_setaffinity(0, {second}))
    assert cpus_by_rank(result.stdout) == {0: {second}, 1: {second}}, result.stderr


def test_more_exclusive_workers_than_cores_start_nothing(run_muster, cores):
    result = run_muster(["run", "--nproc-per-node", cores + 1, "--numa-binding", "exclusive", *SHOW_CPUS])
    assert result.returncode == 2
    assert result.stdout == ""
    assert "use --numa-binding node, or fewer workers" in result.stderr


def test_dry_run_shows_the_cores(run_muster, halves):
    *halves, env = halves
    options = ["--nproc-per-node", 2, "--numa-binding", "node", "--dry-run", "--no-python", "/bin/true"]
    result = run_muster(["run", *options], env=env)
    assert re.findall(r"^ *cores +(.*) \(bound\)$", result.stdout, re.M) == [str(cpu) for cpu in halves], result.stdout
