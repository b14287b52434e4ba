"""A node whose cable is cut, in the lab of test/lab: real network stacks on this machine."""

from __future__ import annotations

import encodings.idna  # noqa: F401  (in a node this interpreter's own files may be out of sight)
import sys
import tempfile
import time

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT, muster
from node_jobs import Job

LEASE = 3
NODES, WORKERS = 3, 2  # three: both that remain see the fault from outside
SOON = 60


def contests() -> list[Contest]:
    ours = muster()
    return [
        Contest(
            f"a node's cable is cut, --lease {LEASE}: the rest runs again",
            [Subject("muster run --hosts", cable_cut, ours.absent or no_lab())],
            [Metric("since the cut", "s", [Goal(limit=4)])],
            rounds=3,
            warm_ups=0,
        )
    ]


def no_lab() -> str:
    return _lab_module().why_no_nodes() or ""


def _lab_module():
    if str(ROOT / "test") not in sys.path:
        sys.path.append(str(ROOT / "test"))
    from multinode import harness

    return harness


def cable_cut() -> float:
    lab = _lab_module()
    with tempfile.TemporaryDirectory(prefix="bench_") as shared:
        try:
            cluster = lab.Cluster(muster().path, shared, NODES)
        except lab.LabError as error:
            raise Failed(str(error)) from error
        try:
            return _cut_one(cluster, shared)
        finally:
            cluster.close()


def _cut_one(cluster, shared: str) -> float:
    options = ["--hosts", ",".join(cluster.names), "--nnodes", f"1:{NODES}", "--nproc-per-node", str(WORKERS)]
    command = [cluster.muster_program, "run", *options, "--lease", str(LEASE), "--crash-loop", "0", "--max-restarts", "9"]
    start = lambda argv, env: cluster.exec("ctl", argv, env=env).process  # noqa: E731
    with Job([command], start=start, folder=shared) as job:
        job.wait("start", NODES * WORKERS, SOON)
        moment = time.monotonic()
        cluster.cut(cluster.names[-1])
        again = job.wait("start", (NODES - 1) * WORKERS, SOON)
        return max(event.time for event in again) - moment
