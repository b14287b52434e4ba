"""Medians and their intervals: pure functions."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A median and the interval that covers the true one with 95 % probability (wider when there are few values)."""

    median: float
    low: float
    high: float

    def overlaps(self, other: "Estimate") -> bool:
        return self.low <= other.high and other.low <= self.high


def estimate(values: list[float]) -> Estimate:
    """From order statistics: no assumption about how the noise is distributed."""
    ordered = sorted(values)
    outside = _ranks_outside(len(ordered))
    return Estimate(statistics.median(ordered), ordered[outside], ordered[-1 - outside])


def ratio(numerators: list[float], denominators: list[float]) -> Estimate:
    """Median of the rounds' own ratios: both were measured within one round, so slow drift of the machine cancels."""
    return estimate([a / b if b else math.inf for a, b in zip(numerators, denominators)])


def _ranks_outside(count: int, level: float = 0.95) -> int:
    """How many values at either end may be left out so that the rest still covers the median with `level`."""
    tail = 0.0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 1 - 2 * tail < level:
            return max(rank - 1, 0)
    return max(count // 2 - 1, 0)
