"""A coordinator and very many agents: they join, get their ranks, pass ten rounds."""

from __future__ import annotations

import json
import os
import subprocess

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT

PROGRAM = ROOT / "build/release/bin/rendezvous_load_bench"
FEW, MORE, MANY = 1_000, 3_000, 10_000
LINEAR = 1.5  # an agent may cost so many times what it costs among few


def contests() -> list[Contest]:
    absent = "" if os.access(PROGRAM, os.X_OK) else f"{PROGRAM} is not built (make)"
    few = name_of(FEW)
    return [
        Contest(
            "coordinator, ten rounds",
            [Subject(name_of(count), lambda count=count: load(count), absent) for count in (MANY, MORE, FEW)],
            [
                Metric("all have joined", "s", [Goal(limit=3)]),
                Metric("processor time until then", "s", [Goal(limit=1)]),
                Metric("all rounds", "s"),
                Metric("processor time of all", "s"),
                Metric("the same without beats, an agent", "s", [Goal(few, at_most=LINEAR)]),
                Metric("memory", "B"),
                Metric("memory an agent", "B", [Goal(few, at_most=LINEAR)]),
            ],
            rounds=3,
            warm_ups=0,
        )
    ]


def name_of(count: int) -> str:
    return f"{count:,} agents"


def load(count: int) -> dict[str, float]:
    try:
        run = subprocess.run([PROGRAM, str(count)], capture_output=True, text=True, timeout=150)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{count} agents: not over after {error.timeout:g} s") from error
    if run.returncode != 0:
        raise Failed(f"{count} agents: {(run.stderr.strip().splitlines() or ['exit code ' + str(run.returncode)])[0]}")
    told = json.loads(run.stdout)
    return {
        "all have joined": told["join_s"],
        "processor time until then": told["join_cpu_s"],
        "all rounds": told["total_s"],
        "processor time of all": told["cpu_s"],
        "the same without beats, an agent": told["own_cpu_s"] / count,
        "memory": told["memory_bytes"],
        "memory an agent": told["memory_bytes"] / count,
    }
