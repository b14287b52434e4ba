"""From a SIGKILL of the launcher itself to the moment nothing of the job is left, grandchildren with setsid() included."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
import uuid

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT, muster, torchrun

WORKERS = 8
WORKER = str(ROOT / "bench/programs/family.sh")
MARKER = "BENCH_FAMILY"  # inherited by every process of the job
PATIENCE = 3.0  # then what is left is counted, and ended by us


def contests() -> list[Contest]:
    ours, torch = muster(), torchrun()
    options = ["--nproc-per-node", str(WORKERS)]
    run, peer = [ours.path, "run", *options], [torch.path, "--no-python", *options]
    metric = [Metric("until nothing is left", "s", goals=[Goal(limit=1.0)])]
    return [
        Contest(
            f"SIGKILL of the launcher of {WORKERS} workers",
            [
                Subject("muster run", lambda: time_to_vanish(run, lambda pid: pid), ours.absent),
                Subject(torch.title, lambda: time_to_vanish(peer, lambda pid: pid), torch.absent),
            ],
            metric,
            rounds=5,
            warm_ups=0,
        ),
        Contest(
            f"SIGKILL of the agent of {WORKERS} workers",
            [Subject("muster run", lambda: time_to_vanish(run, only_child), ours.absent)],
            metric,
            rounds=5,
            warm_ups=0,
        ),
    ]


def time_to_vanish(launcher: list[str], victim_of) -> float:
    marker = uuid.uuid4().hex
    process = subprocess.Popen(
        [*launcher, WORKER],
        env=os.environ | {MARKER: marker},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_sleepers(marker, 2 * WORKERS)
        start = time.perf_counter()
        os.kill(victim_of(process.pid), signal.SIGKILL)
        process.wait(PATIENCE)
        while left := processes(marker):
            if time.perf_counter() - start > PATIENCE:
                raise Failed(f"{len(left)} processes left after {PATIENCE:.0f} s")
            time.sleep(0.005)
        return time.perf_counter() - start
    finally:
        for pid in processes(marker):
            os.kill(pid, signal.SIGKILL)


def only_child(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def wait_for_sleepers(marker: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(command(pid) == "sleep" for pid in processes(marker)) < count:
        if time.monotonic() > deadline:
            raise Failed("the workers did not start")
        time.sleep(0.01)


def processes(marker: str) -> list[int]:
    wanted = f"{MARKER}={marker}".encode()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if wanted in environment(pid)]


def environment(pid: int) -> list[bytes]:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is not ours
        return []


def command(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
