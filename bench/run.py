#!/usr/bin/python3
"""Measures muster beside its peers and prints one table. Exit code 1 when a goal was missed or could not be judged."""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import Progress, run_contest  # noqa: E402
from machine import facts  # noqa: E402
from table import render, to_json, verdict  # noqa: E402

# A name here is a module beside this file.
BENCHMARKS = [
    "start",
    "output",
    "memory",
    "restart",
    "cleanup",
    "store",
    "nodes",
    "slurm",
]


def main() -> int:
    options = parse()
    known = facts()
    for name, text in known.items():
        print(f"{name + ':':10}{text}", flush=True)
    rows = []
    for name in options.only or BENCHMARKS:
        for contest in importlib.import_module(name).contests():
            progress = Progress(f"{name}: {contest.name}: ")
            rows += run_contest(contest, options.rounds, progress)
            progress.clear()
    print("\n" + render(rows) + "\n\n" + verdict(rows))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(to_json(rows, known), indent=1) + "\n")
        print(f"written: {options.json}")
    return 1 if any(row.goal and not row.met for row in rows) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="this benchmark; may be repeated")
    parser.add_argument("--rounds", type=int, help="instead of each contest's own number")
    parser.add_argument("--json", type=pathlib.Path, help="also write every round's figures here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
