"""--numa-binding: the CPUs that workers really get, without numactl."""

import os

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


@pytest.mark.parametrize("mode", ["node", "socket", "exclusive", "core-complex"])
def test_every_mode_stays_within_our_mask(run_muster, cpus, cores, mode):
    workers = min(2, cores)
    result = run_muster(["run", "--nproc-per-node", workers, "--numa-binding", mode, *SHOW_CPUS])
    assert result.returncode == 0, result.stderr
    given = cpus_by_rank(result.stdout)
    assert sorted(given) == list(range(workers))
    assert all(mine and mine <= cpus for mine in given.values())
    if mode == "exclusive":
        assert sum(map(len, given.values())) == len(set().union(*given.values()))


def test_a_narrower_mask_is_obeyed(run_muster, cpus):
    last = max(cpus)
    result = run_muster(["run", "--nproc-per-node", 2, "--numa-binding", "node", *SHOW_CPUS],
                        preexec_fn=lambda: os.sched_setaffinity(0, {last}))
    assert cpus_by_rank(result.stdout) == {0: {last}, 1: {last}}, result.stderr


def test_more_exclusive_workers_than_cores_start_nothing(run_muster, cores):
    result = run_muster(["run", "--nproc-per-node", cores + 1, "--numa-binding", "exclusive", *SHOW_CPUS])
    assert result.returncode == 2
    assert result.stdout == ""
    assert "use --numa-binding node, or fewer workers" in result.stderr


def test_dry_run_shows_the_cores(run_muster):
    result = run_muster(["run", "--numa-binding", "node", "--dry-run", "--no-python", "/bin/true"])
    assert "(bound)" in result.stdout
