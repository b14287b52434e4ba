"""A job of several nodes on this machine, and what its workers (programs/node_worker.c) tell of themselves."""

from __future__ import annotations

import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from lib import Failed
from machine import compiled, muster


@dataclass(frozen=True)
class Event:
    what: str  # "start", "term", "joined"
    rank: int
    pid: int
    parent: int  # the node's agent
    restarts: int
    time: float  # CLOCK_MONOTONIC, s


def start_here(argv: list[str], env: dict[str, str]) -> subprocess.Popen:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(argv, env=os.environ | env, stdin=nothing, stdout=nothing, stderr=nothing)


class Job:
    """`launchers`: one command line, or one a node; each is given the worker, by default programs/node_worker.c in
    `worker_mode`. Ended by the with-block, whatever is left.

    `start` makes a process of a command line and the variables that its workers need; `folder` is where all of them see
    the same files. Workers of the first `quiet_nodes` do nothing, whatever their mode.
    """

    def __init__(
        self,
        launchers: list[list[str]],
        worker_mode: str = "",
        start=start_here,
        folder: str | None = None,
        quiet_nodes: int = 0,
        worker: list[str] | None = None,
    ):
        self._folder = tempfile.TemporaryDirectory(prefix="bench_", dir=folder)
        fifo = pathlib.Path(self._folder.name) / "told"
        os.mkfifo(fifo)
        self._reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # O_RDWR: never at its end between two writers
        self._rest = b""
        self._events: list[Event] = []
        self._pids: set[int] = set()
        self._here = start is start_here
        worker = worker or [compiled("node_worker.c"), *filter(None, [worker_mode])]
        self.began = time.monotonic()
        env = {"BENCH_FIFO": str(fifo), "BENCH_QUIET_NODES": str(quiet_nodes)}
        self._mark = f"BENCH_FIFO={fifo}".encode()
        self.processes = [start([*launcher, *worker], env) for launcher in launchers]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error) -> None:
        for process in self.processes:
            process.terminate()
        left = [process for process in self.processes if not _ends_within(process, 30)]
        for process in left:
            process.kill()
            process.wait()
        self._end_workers()
        os.close(self._reader)
        self._folder.cleanup()
        # A peer that does not end is killed, as its user would; ours has failed.
        if any(process.args[0] == muster().path for process in left):
            raise Failed("muster did not end within 30 s of SIGTERM")

    def _end_workers(self) -> None:
        """Those that a launcher has left behind, as torchrun may."""
        try:
            self._read()
        except BlockingIOError:
            pass  # nothing new
        for pid in self._pids if self._here else ():
            try:
                if self._mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    _kill(pid, signal.SIGKILL)
            except OSError:
                pass  # gone

    def wait(self, what: str, count: int, timeout: float, which: Callable[[Event], bool] = lambda event: True) -> list[Event]:
        """The next `count` of these; others that come meanwhile are forgotten."""
        deadline = time.monotonic() + timeout
        found: list[Event] = []
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            while self._events:
                event = self._events.pop(0)
                if event.what == what and which(event):
                    found.append(event)
                if len(found) == count:
                    return found
            if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
                raise Failed(f"{len(found)} of {count} workers told of their {what} within {timeout:g} s")
            self._read()

    def _read(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._reader, 65536)).split(b"\n")
        for line in lines:
            what, *numbers, nanoseconds = line.decode().split()
            event = Event(what, *map(int, numbers), int(nanoseconds) / 1e9)
            self._events.append(event)
            self._pids.add(event.pid)


def _ends_within(process: subprocess.Popen, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_together(pids: list[int]) -> float:
    """SIGKILL to all at one moment, as near as can be: who is stopped cannot react to the death of another. Returns
    that moment."""
    for pid in pids:
        _kill(pid, signal.SIGSTOP)
    moment = time.monotonic()
    for pid in pids:
        _kill(pid, signal.SIGKILL)
    return moment


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def parent_of(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def torchrun_nodes(path: str, count: int, options: list[str]) -> list[list[str]]:
    """One torchrun a node, that meet on this machine, at a store in the first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench"]
    return [[path, "--no-python", *meet, "--rdzv-conf", f"is_host={int(i == 0)}", *options] for i in range(count)]
