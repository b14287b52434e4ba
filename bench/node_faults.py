"""What a job of several nodes does when something dies: how soon the rest is told, and runs again."""

from __future__ import annotations

import math
import os
import signal
import statistics
import time

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT, muster, torch_python, torchrun
from node_jobs import Job, kill_together, parent_of, torchrun_nodes

NODES, WORKERS = 2, 4  # WORKERS a node
SOON = 60  # s; a launcher that needs longer has failed
PATIENCE = 180  # s; the same for a node that is lost, which torchrun notices by timeouts
KILLS = 100  # for a percentile
RESTARTS = ["--max-restarts", "100000"]


def contests() -> list[Contest]:
    ours, torch = muster(), torchrun()
    nodes = ["--nproc-per-node", str(WORKERS)]
    local = [ours.path, "run", "--local-nodes", str(NODES), *nodes, "--crash-loop", "0"]
    elastic = ["--nnodes", f"1:{NODES}"]
    torch_options = [*nodes, *RESTARTS]
    return [
        Contest(
            f"all {NODES * WORKERS} workers of {NODES} nodes are up",
            [
                Subject("muster run --local-nodes", lambda: start_time([local]), ours.absent, 5),
                Subject(
                    torch.title,
                    lambda: start_time(torchrun_nodes(torch.path, NODES, ["--nnodes", str(NODES), *nodes])),
                    torch.absent,
                ),
            ],
            [Metric("since the start", "s", [Goal(torch.title, at_least=50)])],
            rounds=7,
        ),
        Contest(
            "a worker is killed: all of the next round run",
            [
                Subject("muster run --local-nodes", lambda: worker_killed([[*local, *RESTARTS]]), ours.absent, 3),
                Subject(
                    torch.title,
                    lambda: worker_killed(torchrun_nodes(torch.path, NODES, ["--nnodes", str(NODES), *torch_options])),
                    torch.absent,
                ),
            ],
            [Metric("since the kill", "s", [Goal(limit=0.5)])],
            rounds=5,
            warm_ups=0,
        ),
        Contest(
            "a node's processes are killed: the rest runs again",
            [
                Subject("muster run --local-nodes", lambda: node_killed([[*local, *elastic, *RESTARTS]]), ours.absent),
            ],
            [Metric("since the kill", "s", [Goal(limit=1)])],
            rounds=6,
            warm_ups=0,
        ),
        # torchrun looks at its own workers only, so that of idle ones it would never notice.
        Contest(
            "the same, with workers that communicate by gloo",
            [
                Subject(
                    "muster run --local-nodes",
                    lambda: node_killed([[*local, *elastic, *RESTARTS]], gloo_worker()),
                    ours.absent or torch.absent,
                ),
                Subject(
                    torch.title,
                    lambda: node_killed(torchrun_nodes(torch.path, NODES, [*elastic, *torch_options]), gloo_worker()),
                    torch.absent,
                ),
            ],
            [Metric("since the kill", "s")],
            rounds=3,
            warm_ups=0,
        ),
        Contest(
            "a rank dies: SIGTERM on every other node",
            [Subject("muster run --local-nodes", lambda: reaction(4), ours.absent)],
            [Metric("median", "s"), Metric("p99", "s", [Goal(limit=0.05)])],
            rounds=3,
            warm_ups=0,
        ),
    ]


def start_time(launchers: list[list[str]]) -> float:
    with Job(launchers) as job:
        return max(event.time for event in job.wait("start", NODES * WORKERS, SOON)) - job.began


def worker_killed(launchers: list[list[str]]) -> float:
    with Job(launchers) as job:
        first = job.wait("start", NODES * WORKERS, SOON)
        victim = max(first, key=lambda event: event.rank)
        moment = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        return max(event.time for event in job.wait("start", NODES * WORKERS, SOON)) - moment


def gloo_worker() -> list[str]:
    loopback = ["env", "GLOO_SOCKET_IFNAME=lo"]
    return [*loopback, torch_python().path, str(ROOT / "bench/programs/gloo_worker.py")]


def node_killed(launchers: list[list[str]], communicating: list[str] | None = None) -> float:
    """Not the node of torchrun's own store, without which its whole job ends; of ours, not that of rank 0. Workers that
    communicate are killed when they do."""
    with Job(launchers, worker=communicating) as job:
        first = job.wait("start", NODES * WORKERS, SOON)
        parents = {event.parent for event in first}
        with_store = job.processes[0].pid
        survivor = with_store if with_store in parents else min(first, key=lambda event: event.rank).parent
        if communicating:
            job.wait("joined", NODES * WORKERS, SOON)
        victims = [event for event in first if event.parent != survivor]
        if len(victims) != WORKERS:
            raise Failed("not every node has started its workers")
        doomed = [event.pid for event in victims] + [victims[0].parent]
        launcher_pids = {process.pid for process in job.processes}
        if len(launchers) == 1 and parent_of(doomed[-1]) not in launcher_pids:
            doomed.append(parent_of(doomed[-1]))  # the warden
        moment = kill_together(doomed)
        again = job.wait("start", WORKERS, PATIENCE, lambda event: event.parent == survivor)
        return max(event.time for event in again) - moment


def reaction(nodes: int, mode: str = "", kills: int = KILLS) -> dict[str, float]:
    """From a rank's death to the last of the SIGTERMs on other nodes. With a mode, each node has a second worker that is
    busy (programs/node_worker.c)."""
    workers = 2
    tellers = nodes if mode else nodes * workers
    launcher = [muster().path, "run", "--local-nodes", str(nodes), "--nproc-per-node", str(workers), "--crash-loop", "0"]
    times = []
    with Job([[*launcher, *RESTARTS]], mode) as job:
        for number in range(kills):
            started = job.wait("start", tellers, SOON)
            victim = sorted(started, key=lambda event: event.rank)[number % tellers]
            others = sum(event.parent != victim.parent for event in started)
            moment = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            told = job.wait("term", others, SOON, lambda event: event.parent != victim.parent)  # noqa: B023
            times.append(max(event.time for event in told) - moment)
    return _summary(times)


def coordinator_reaction(writers: int, mode: str, kills: int) -> dict[str, float]:
    """From a rank's death on one quiet node to SIGTERM on another, while `writers` nodes more are busy. The quiet ones
    have, as in a cluster, nothing to do with how busy these are: real-time priority gives them a processor whenever they
    want one, so what is measured is the coordinator, which has no such help."""
    launcher = [muster().path, "run", "--local-nodes", str(2 + writers), "--nproc-per-node", "2", "--crash-loop", "0"]
    times = []
    with Job([[*launcher, *RESTARTS]], mode, quiet_nodes=2) as job:
        for number in range(kills):
            started = sorted(job.wait("start", 2 + writers, SOON), key=lambda event: event.rank)
            for node in started[:2]:  # workers of later rounds have it from their agents
                give_real_time(node.pid, node.parent, parent_of(node.parent))
            victim, other = started[number % 2], started[1 - number % 2]
            moment = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            [told] = job.wait("term", 1, SOON, lambda event: event.pid == other.pid)  # noqa: B023
            times.append(told.time - moment)
    return _summary(times)


def give_real_time(*pids: int) -> None:
    try:
        for pid in pids:
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError as error:
        raise Failed("needs root, for real-time priority") from error


def _summary(times: list[float]) -> dict[str, float]:
    times.sort()
    return {"median": statistics.median(times), "p99": times[math.ceil(0.99 * len(times)) - 1]}
