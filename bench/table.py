"""Rows as one aligned table, and as JSON."""

from __future__ import annotations

import math

from lib import Goal, Metric, Row
from stats import LEVEL, Estimate

HEADER = ["what", "who", "median", "interval", "ratio", "interval", "goal", ""]
LEGEND = "interval: of 95 %, or, with the number of rounds behind it, the lowest and the highest of so few"


def render(rows: list[Row]) -> str:
    lines = [HEADER]
    previous = ""
    for row in rows:
        what = f"{row.contest}: {row.metric.name}"
        lines.append(["" if what == previous else what, row.subject, *_figures(row)])
        previous = what
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    right = {2, 4}
    text = []
    for line in lines:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths))]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "  ".join("-" * w for w in widths))
    text += ["", LEGEND]
    return "\n".join(text)


def verdict(rows: list[Row]) -> str:
    goals = [r for r in rows if r.goal]
    met = sum(r.met is True for r in goals)
    missed = sum(r.met is False for r in goals)
    notes = dict.fromkeys(f"{r.contest}, {r.subject}: {r.note}" for r in rows if r.note)
    noun = "goal" if len(goals) == 1 else "goals"
    return "\n".join([*notes, f"{len(goals)} {noun}: {met} met, {missed} missed, {len(goals) - met - missed} not judged"])


def to_json(rows: list[Row], facts: dict[str, str]) -> dict:
    return {"facts": facts, "rows": [_row_json(row) for row in rows]}


def _figures(row: Row) -> list[str]:
    met = {None: "not judged" if row.goal else "", True: "met", False: "MISSED"}[row.met]
    if row.note:
        return [row.note.split(":")[0], "", "", "", _goal_text(row.goal, row.metric), met]
    scale = _scale(row.metric.unit, row.value.median)
    interval = _interval(row.value, scale[0])
    ratio = [f"{_short(row.ratio.median)}×", _interval(row.ratio)] if row.ratio else ["", ""]
    return [f"{_scaled(row.value.median, scale)} {scale[1]}".strip(), interval, *ratio, _goal_text(row.goal, row.metric), met]


def _interval(value: Estimate, unit: float = 1) -> str:
    few = f" ({value.rounds} round{'s' if value.rounds > 1 else ''})" if value.rounds else ""
    return f"{_short(value.low / unit)} … {_short(value.high / unit)}{few}"


def _goal_text(goal: Goal | None, metric: Metric) -> str:
    if goal is None:
        return ""
    if goal.limit is not None:
        scale = _scale(metric.unit, goal.limit)
        return f"{'≥' if metric.more_is_better else '≤'} {_short(goal.limit / scale[0])} {scale[1]}".strip()
    if goal.not_worse:
        return "not worse"
    if goal.at_most is not None:
        return f"≤ {_short(goal.at_most)}× theirs"
    return f"≥ {_short(goal.at_least)}× better"


SCALES = {
    "s": [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    "B": [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")],
    "/s": [(1e6, "M/s"), (1e3, "k/s"), (1, "/s")],
    "B/s": [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")],
}


def _scale(unit: str, value: float) -> tuple[float, str]:
    scales = SCALES.get(unit, [(1, unit)])
    return next((s for s in scales if abs(value) >= s[0]), scales[-1])


def _scaled(value: float, scale: tuple[float, str]) -> str:
    return _short(value / scale[0])


def _short(value: float) -> str:
    """Three significant digits, never an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _estimate_json(value: Estimate | None):
    """`level`: what the interval covers the median with; null if it is the range of few rounds."""
    if value is None:
        return None
    return {"median": value.median, "low": value.low, "high": value.high, "level": None if value.rounds else LEVEL}


def _row_json(row: Row) -> dict:
    goal = row.goal and {k: v for k, v in vars(row.goal).items() if v not in (None, False)}
    return {
        "contest": row.contest,
        "metric": row.metric.name,
        "unit": row.metric.unit,
        "subject": row.subject,
        "value": _estimate_json(row.value),
        "ratio": _estimate_json(row.ratio),
        "goal": goal,
        "met": row.met,
        "note": row.note or None,
        "rounds": row.samples,
    }
