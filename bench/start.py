"""How long it takes to start eight local workers that do nothing, and to be asked for help."""

from __future__ import annotations

import os

from lib import Contest, Goal, Metric, Subject
from machine import compiled, mpirun, muster, run_time, torchrun

WORKERS = "8"


def contests() -> list[Contest]:
    ours, torch, mpi = muster(), torchrun(), mpirun()
    loop = compiled("spawn_loop.c")
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [
        Contest(
            f"start {WORKERS} × true",
            [
                Subject("muster run", lambda: run_time([ours.path, "run", "--nproc-per-node", WORKERS, "true"]), ours.absent, 10),
                Subject(torch.title, lambda: run_time([torch.path, "--no-python", "--nproc-per-node", WORKERS, "true"]), torch.absent),
                Subject(mpi.title, lambda: run_time([mpi.path, *as_root, "--oversubscribe", "-n", WORKERS, "true"]), mpi.absent, 5),
                Subject("posix_spawn loop", lambda: run_time([loop, WORKERS, "true"]), per_round=10),
                Subject("the loop with setsid", lambda: run_time([loop, "-s", WORKERS, "true"]), per_round=10),
            ],
            [
                Metric(
                    "wall time",
                    "s",
                    [Goal(torch.title, at_least=100), Goal(mpi.title, at_least=5), Goal("posix_spawn loop", at_most=2.5)],
                )
            ],
        ),
        Contest(
            "muster --help",
            [Subject("muster", lambda: run_time([ours.path, "--help"]), ours.absent, 10)],
            [Metric("wall time", "s", [Goal(limit=0.010)])],
        ),
    ]
