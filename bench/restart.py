"""From a worker's SIGKILL to the moment all four workers run again."""

from __future__ import annotations

import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time

from lib import Contest, Failed, Metric, Subject
from machine import ROOT, muster, torchrun

WORKERS = 4
WORKER = str(ROOT / "bench/programs/announce.sh")


def contests() -> list[Contest]:
    ours, torch = muster(), torchrun()
    options = ["--nproc-per-node", str(WORKERS), "--max-restarts", "1"]
    return [
        Contest(
            f"restart of {WORKERS} workers after a SIGKILL",
            [
                Subject("muster run", lambda: restart_time([ours.path, "run", *options]), ours.absent),
                Subject(torch.title, lambda: restart_time([torch.path, "--no-python", *options]), torch.absent),
            ],
            [Metric("wall time", "s")],
            rounds=7,
            warm_ups=0,
        )
    ]


def restart_time(launcher: list[str], timeout: float = 60) -> float:
    with tempfile.TemporaryDirectory(prefix="bench_") as folder:
        fifo = pathlib.Path(folder) / "started"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # O_RDWR: never at its end between two writers
        process = subprocess.Popen(
            [*launcher, WORKER],
            env=os.environ | {"BENCH_FIFO": str(fifo)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            pids = _read_pids(reader, time.monotonic() + timeout)
            start = time.perf_counter()
            os.kill(pids[1], signal.SIGKILL)
            _read_pids(reader, time.monotonic() + timeout)
            return time.perf_counter() - start
        finally:
            os.close(reader)
            process.terminate()
            process.wait(timeout)


def _read_pids(reader: int, deadline: float) -> list[int]:
    text = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while text.count(b"\n") < WORKERS:
        if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
            raise Failed(f"{text.count(10)} of {WORKERS} workers ran before the time was up")
        text += os.read(reader, 4096)
    return [int(pid) for pid in text.split()]
