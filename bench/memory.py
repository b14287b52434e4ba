"""What a launcher itself keeps in memory while eight workers sleep: all its processes but the workers."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time

from lib import Contest, Failed, Goal, Metric, Subject
from machine import muster, torchrun

WORKERS = 8
WORKER = ["sleep", "60"]


def contests() -> list[Contest]:
    ours, torch = muster(), torchrun()
    count = ["--nproc-per-node", str(WORKERS)]
    return [
        Contest(
            f"memory with {WORKERS} × sleep",
            [
                Subject("muster run", lambda: memory([ours.path, "run", *count, *WORKER]), ours.absent),
                Subject(torch.title, lambda: memory([torch.path, "--no-python", *count, *WORKER]), torch.absent),
            ],
            [Metric("resident", "B", [Goal(limit=30e6)]), Metric("proportional", "B")],
            rounds=5,
            warm_ups=0,
        )
    ]


def memory(argv: list[str], timeout: float = 60) -> dict[str, float]:
    launcher = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        own = _until_started(launcher, time.monotonic() + timeout)
        sizes = [_sizes(pid) for pid in own]
    finally:
        launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(timeout)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
    return {"resident": sum(s["Rss"] for s in sizes), "proportional": sum(s["Pss"] for s in sizes)}


def _until_started(launcher: subprocess.Popen, deadline: float) -> list[int]:
    """The launcher's processes, once all workers sleep."""
    while time.monotonic() < deadline and launcher.poll() is None:
        tree = {pid: _command(pid) for pid in family(launcher.pid)}
        workers = [pid for pid, command in tree.items() if command == WORKER]
        if len(workers) == WORKERS:
            time.sleep(0.2)  # what a launcher still does after its last spawn
            return [pid for pid in tree if pid not in workers]
        time.sleep(0.02)
    raise Failed(f"{WORKERS} workers never ran: {' '.join(launcher.args)}")


def family(root: int) -> list[int]:
    """A process and everything below it."""
    found = [root]
    for pid in found:
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                pass  # it has just ended
    return found


def _command(pid: int) -> list[str]:
    try:
        return [os.fsdecode(a) for a in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
    except OSError:
        return []


def _sizes(pid: int) -> dict[str, float]:
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) * 1024 for name in ("Rss", "Pss")}
