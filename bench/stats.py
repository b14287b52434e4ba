"""Medians and their intervals: pure functions."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median and the interval that covers the true one with 95 % probability.

    Fewer than six values have no such interval (the widest one that five can give covers the median with 94 %): then it
    is the range of the values, and `rounds` says how many they are.
    """

    median: float
    low: float
    high: float
    rounds: int | None = None  # None: the interval is one of 95 %

    def same_as(self, other: "Estimate") -> bool:
        """Whether both intervals overlap. Ranges of few values say nothing: the fewer, the more often they overlap."""
        known = self.rounds is None and other.rounds is None
        return known and self.low <= other.high and other.low <= self.high


def estimate(values: list[float]) -> Estimate:
    """From order statistics: no assumption about how the noise is distributed."""
    ordered = sorted(values)
    if 1 - 2 / 2 ** len(ordered) < LEVEL:
        return Estimate(statistics.median(ordered), ordered[0], ordered[-1], len(ordered))
    outside = _ranks_outside(len(ordered))
    return Estimate(statistics.median(ordered), ordered[outside], ordered[-1 - outside])


def ratio(numerators: list[float], denominators: list[float]) -> Estimate:
    """Median of the rounds' own ratios: both were measured within one round, so slow drift of the machine cancels."""
    return estimate([a / b if b else math.inf for a, b in zip(numerators, denominators)])


def _ranks_outside(count: int) -> int:
    """How many values at either end may be left out so that the rest still covers the median with LEVEL."""
    tail = 0.0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 1 - 2 * tail < LEVEL:
            return rank - 1
    return max(count // 2 - 1, 0)
