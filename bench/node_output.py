"""Ten nodes' output in one place, and how soon the coordinator, which is there too, reacts meanwhile."""

from __future__ import annotations

from lib import Contest, Goal, Metric, Subject
from machine import compiled, muster
from node_faults import coordinator_reaction, reaction
from output import lines_a_second

NODES = 10
LINES = 100_000  # a node
KILLS = 20  # a measurement


def contests() -> list[Contest]:
    ours = muster()
    writer = [compiled("write_lines.c"), str(LINES)]
    total = NODES * LINES
    idle = "the same, nobody writes"
    return [
        Contest(
            f"{NODES} nodes × {LINES} labelled lines at the launcher",
            [
                Subject(
                    "muster run --local-nodes",
                    lambda: lines_a_second([ours.path, "run", "--local-nodes", str(NODES), *writer], expected=total),
                    ours.absent,
                ),
                Subject(
                    "muster run, one node",
                    lambda: lines_a_second([ours.path, "run", "--nproc-per-node", str(NODES), *writer], expected=total),
                    ours.absent,
                ),
            ],
            [Metric("lines", "/s", more_is_better=True)],
            rounds=5,
        ),
        Contest(
            f"a rank dies while {NODES} other nodes write as fast as they can: SIGTERM on one more",
            [
                Subject("muster run --local-nodes", lambda: coordinator_reaction(NODES, "chat", KILLS), ours.absent),
                Subject(idle, lambda: coordinator_reaction(NODES, "idle", KILLS), ours.absent),
            ],
            [Metric("median", "s", [Goal(idle, at_most=2)]), Metric("p99", "s")],
            rounds=3,
            warm_ups=0,
        ),
        Contest(
            f"a rank dies while it and {NODES - 1} nodes more write as fast as they can, all on these cores: SIGTERM on every other",
            [
                Subject("muster run --local-nodes", lambda: reaction(NODES, "chat", KILLS), ours.absent),
                Subject("the same, they write to nowhere", lambda: reaction(NODES, "burn", KILLS), ours.absent),
                Subject(idle, lambda: reaction(NODES, "idle", KILLS), ours.absent),
            ],
            [Metric("median", "s"), Metric("p99", "s")],
            rounds=3,
            warm_ups=0,
        ),
    ]
