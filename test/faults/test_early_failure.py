"""A worker that fails while other nodes have not started theirs yet."""

import pytest

from harness import shell

pytestmark = pytest.mark.multiprocess

# Rank 0's node does not look for the store and is ahead of the others, which are told to stop while they look.
PROGRAM = 'test "$RANK" != 0 || test "$TORCHELASTIC_RESTART_COUNT" = 3 || exit 3'


def test_nodes_that_had_not_started_are_no_reason_to_give_up(run_muster):
    options = ["--local-nodes", "3", "--nproc-per-node", "2", "--max-restarts", "3", "--crash-loop", "0"]
    for _ in range(4):
        job = run_muster(["run", *options, *shell(PROGRAM)])
        assert job.returncode == 0, job.stderr
