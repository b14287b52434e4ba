"""What every benchmark here shares: contests between muster and its peers, rounds that interleave them, in one order and the other in turn, and goals.

A benchmark module has one function, `contests() -> list[Contest]`. The first subject of a contest is ours. A subject
that cannot be measured here is given with the reason (`absent=`), so that the table names it.

    def contests():
        return [Contest(
            name="start 8 × true",
            subjects=[Subject("muster run", lambda: run_time([...])),
                      Subject("mpirun", lambda: run_time([...]), absent=mpirun.absent)],
            metrics=[Metric("wall time", "s", goals=[Goal("mpirun", at_least=5)])])]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from stats import Estimate, estimate, ratio

NOT_WORSE = 1.10  # "not worse" is within 10 %, or, with six rounds or more, intervals that overlap


class Failed(Exception):
    """A measurement that did not work; the text says why and ends up in the table."""


@dataclass(frozen=True)
class Goal:
    """What we want against a peer, or, without a peer, of our own figure.

    at_least: how many times better than the peer we are. at_most: how many times the peer's figure ours may be.
    limit: an absolute bound of our own figure, in the metric's unit.
    """

    peer: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    not_worse: bool = False
    limit: float | None = None


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str  # "s", "B", "/s", "" (see table.py)
    goals: list[Goal] = field(default_factory=list)
    more_is_better: bool = False


@dataclass(frozen=True)
class Subject:
    """`measure` returns one figure, or a dict with one for each metric. It is called `per_round` times a round, and
    the round counts their median: for things so quick that a single one says little."""

    name: str
    measure: Callable[[], float | dict[str, float]]
    absent: str = ""
    per_round: int = 1


@dataclass(frozen=True)
class Contest:
    name: str
    subjects: list[Subject]
    metrics: list[Metric]
    rounds: int = 10
    warm_ups: int = 1


@dataclass
class Row:
    """One subject under one metric."""

    contest: str
    metric: Metric
    subject: str
    samples: list[float] = field(default_factory=list)  # one a round
    note: str = ""  # why there is no figure
    value: Estimate | None = None
    goal: Goal | None = None
    ratio: Estimate | None = None  # in the direction of the goal; without one, how many times better we are
    met: bool | None = None  # None: no goal, or nothing to judge it by


def run_contest(contest: Contest, rounds: int | None, progress: Callable[[str], None]) -> list[Row]:
    subjects = [s for s in contest.subjects if not s.absent]
    notes = {s.name: f"absent: {s.absent}" for s in contest.subjects if s.absent}
    samples: dict[str, list[dict[str, float]]] = {s.name: [] for s in contest.subjects}
    total = rounds or contest.rounds
    for number in range(-contest.warm_ups, total):
        shown = f"round {number + 1}/{total}" if number >= 0 else "warming up"
        order = subjects[::-1] if number % 2 else subjects  # each goes first as often as last
        for subject, figures in _one_round(contest, order, notes, lambda name: progress(f"{shown}, {name}")):
            if number >= 0:
                samples[subject.name].append(figures)
        subjects = [s for s in subjects if s.name not in notes]
    return _judge(contest, samples, notes)


def _one_round(contest, subjects, notes, progress):
    """Takes turns until each subject has had its share. A subject that fails is out, with a note."""
    taken: dict[str, list[dict[str, float]]] = {s.name: [] for s in subjects}
    for turn in range(max((s.per_round for s in subjects), default=0)):
        for subject in subjects:
            if turn >= subject.per_round or subject.name in notes:
                continue
            progress(subject.name)
            try:
                figures = subject.measure()
            except Failed as failure:
                notes[subject.name] = f"failed: {failure}"
                continue
            if not isinstance(figures, dict):
                figures = {contest.metrics[0].name: figures}
            taken[subject.name].append(figures)
    for subject in subjects:
        if subject.name not in notes:
            turns = taken[subject.name]
            yield subject, {m.name: estimate([t[m.name] for t in turns]).median for m in contest.metrics if m.name in turns[0]}


def _judge(contest: Contest, samples, notes) -> list[Row]:
    ours = contest.subjects[0].name
    rows = []
    for metric in contest.metrics:
        own_samples = [s[metric.name] for s in samples[ours] if metric.name in s]
        for subject in contest.subjects:
            row = Row(contest.name, metric, subject.name, note=notes.get(subject.name, ""))
            row.goal = next((g for g in metric.goals if g.peer == (None if subject.name == ours else subject.name)), None)
            row.samples = [s[metric.name] for s in samples[subject.name] if metric.name in s]
            if not row.note and not row.samples:
                row.note = "not measured"
            if not row.note:
                row.value = estimate(row.samples)
                _compare(row, own_samples if not notes.get(ours) else [], is_ours=subject.name == ours)
            rows.append(row)
    return rows


def _compare(row: Row, own: list[float], is_ours: bool) -> None:
    goal, value = row.goal, row.value
    if is_ours:
        if goal and goal.limit is not None:
            row.met = value.median >= goal.limit if row.metric.more_is_better else value.median <= goal.limit
        return
    if not own:
        return
    # How many times the peer's figure ours is; turned round where the question is how many times better we are.
    times_peer = ratio(own, row.samples)
    better = times_peer if row.metric.more_is_better else ratio(row.samples, own)
    if goal and goal.at_most is not None:
        row.ratio, row.met = times_peer, times_peer.median <= goal.at_most
        return
    row.ratio = better
    if goal and goal.not_worse:
        row.met = better.median >= 1 / NOT_WORSE or value.same_as(estimate(own))
    elif goal:
        row.met = better.median >= goal.at_least


class Progress:
    """One line that moves, on a terminal; nothing in a file."""

    def __init__(self, prefix: str = ""):
        self._live = sys.stderr.isatty()
        self._prefix = prefix

    def __call__(self, text: str) -> None:
        if self._live:
            print(f"\r\x1b[K{self._prefix}{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
