"""The store beside PyTorch's own server (libuv), with PyTorch's own client, with a client that pipelines, and idle."""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import re
import subprocess

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT, Program, muster, torch_python

PROGRAMS = ROOT / "bench" / "programs"
CLIENTS = [1, 8, 64]
SECONDS = 0.25  # of one measurement
OPS = ["get", "set", "add", "wait", "barrier"]
WINDOW = 100
IDLE = 16000
OURS = "muster store"

def contests() -> list[Contest]:
    ours, python, load = muster(), torch_python(), load_generator()
    theirs = f"libuv server of torch {python.version}".strip()
    both = ours.absent or python.absent

    def pair(measure, absent=""):
        return [Subject(OURS, lambda: measure(0), absent or ours.absent), Subject(theirs, lambda: measure(1), absent or python.absent)]

    torch_client = [
        Contest(
            f"store: {op}, {clients} client{'s' if clients > 1 else ''}",
            pair(lambda server, op=op, clients=clients: arena().drive(server, op, clients), both),
            [
                Metric("server CPU an operation", "s", [Goal(theirs, not_worse=True)]),
                Metric("operations", "/s", [Goal(theirs, not_worse=True)], more_is_better=True),
                Metric("99th percentile", "s", [Goal(theirs, not_worse=True)]),
            ],
        )
        for op in OPS
        for clients in CLIENTS
    ]
    pipelined = [
        Contest(
            f"store: {op} pipelined, 8 connections",
            pair(lambda server, op=op: pipeline(load, server, op), load.absent),
            [Metric("operations", "/s", [Goal(theirs, at_least=1.5)], more_is_better=True)],
            rounds=7,
        )
        for op in ["get", "set", "add"]
    ]
    idle = Contest(
        f"store: {IDLE} idle connections",
        [Subject(OURS, lambda: idle_memory(load, 0), load.absent or ours.absent)],
        [Metric("resident", "B", [Goal(limit=200e6)])],
        rounds=1,
        warm_ups=0,
    )
    return [*torch_client, *pipelined, idle]


def load_generator() -> Program:
    path = ROOT / "build/release/bin/store_load_bench"
    return Program("store_load_bench", str(path), absent="" if path.exists() else f"{path} is not built (make all)")


class Arena:
    """All servers and the clients of all, started once: importing torch takes longer than all measurements."""

    def __init__(self):
        env = os.environ | {"RES_OPTIONS": "timeout:1 attempts:2"}  # torch looks up the name of every peer
        python = torch_python().path
        self.servers = [
            self._start([muster().path, "store", "--port", "0"], env),
            self._start([python, str(PROGRAMS / "store_libuv.py")], env),
        ]
        self.ports = [int(self._line(server)) for server in self.servers]
        where = [f"{port}:{server.pid}" for port, server in zip(self.ports, self.servers)]
        self.driver = self._start([python, str(PROGRAMS / "store_clients.py"), str(max(CLIENTS)), *where], env)
        if self._line(self.driver) != "ready":
            raise Failed("the clients did not connect")

    def drive(self, server: int, op: str, clients: int) -> dict[str, float]:
        try:
            self.driver.stdin.write(f"{server} {op} {clients} {SECONDS}\n")
            self.driver.stdin.flush()
        except BrokenPipeError:
            raise Failed("the clients have ended") from None
        figures = json.loads(self._line(self.driver))
        return {
            "server CPU an operation": figures["cpu"] / figures["ops"],
            "operations": figures["ops"] / figures["wall"],
            "99th percentile": figures["p99"],
        }

    @staticmethod
    def _start(argv, env) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(argv, env=env, text=True, **pipes)
        atexit.register(process.kill)
        return process

    @staticmethod
    def _line(process) -> str:
        line = process.stdout.readline()
        if not line:
            raise Failed(f"{' '.join(process.args)} ended")
        return line.strip()


@functools.lru_cache(maxsize=None)
def arena() -> Arena:
    return Arena()


def pipeline(load: Program, server: int, op: str) -> float:
    argv = [load.path, "pipeline", str(arena().ports[server]), "8", str(WINDOW), str(SECONDS), op]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return float(done.stdout)


def idle_memory(load: Program, server: int) -> float:
    process = subprocess.Popen(
        [load.path, "idle", str(arena().ports[server]), str(IDLE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        opened = process.stdout.readline()
        status = pathlib.Path(f"/proc/{arena().servers[server].pid}/status").read_text()
        process.stdin.close()
        if opened.strip() != str(IDLE):
            raise Failed(process.stderr.read().strip())
    return int(re.search(r"VmRSS:\s*(\d+) kB", status).group(1)) * 1024
