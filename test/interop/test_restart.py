"""A restart gets a store of its own (pytorch#135712)."""

import pytest

from harness import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.multiprocess, pytest.mark.slow]


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_a_round_never_sees_the_keys_of_the_one_before(run_muster, torch_python, store):
    script = ROOT / "test/interop/workers/stale_keys.py"
    args = ["run", "--nproc-per-node", 2, "--max-restarts", 2, "--label", "none", "--store", store, script]
    done = run_muster(args, python=torch_python, timeout=150)
    assert done.returncode == 0, done.stderr
    expected = [f"round {n} rank {r} saw 0" for n in range(3) for r in range(2)]
    assert sorted(done.stdout.splitlines()) == expected
