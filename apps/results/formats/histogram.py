"""Latencies counted in bins, as fio's JSON+ gives them.

The agent counts transactions in bins of its own (agents/histogram.py). These keep fio's, so that a percentile of one
job is the very figure that fio prints.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Histogram:
    """`bins`: (nanoseconds, count), ascending. fio names a bin by its middle, which is within 0.8 % of its latencies
    (in bins of microseconds, as 2.x has them, of its whole microseconds)."""

    bins: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        return sum(count for _, count in self.bins)

    @property
    def mean_ns(self) -> float:
        return sum(ns * count for ns, count in self.bins) / self.count

    def percentile(self, percentage: float) -> int:
        """Nanoseconds within which `percentage` (over 0, up to 100) of all are: fio's own definition, the first bin
        that reaches the share. Raises ValueError for any other percentage."""
        if not 0 < percentage <= 100:
            raise ValueError(f"percentage {percentage}: over 0, and 100 at most")
        reached = list(accumulate(count for _, count in self.bins))
        # Rounded, so that 99.9 % of 1000 is 999 as on paper, not a hair more.
        rank = math.ceil(round(self.count * percentage / 100, 6))
        return self.bins[bisect_left(reached, min(max(1, rank), self.count))][0]

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """All of them counted together: percentiles of several jobs or runs cannot be averaged."""
        together: Counter[int] = Counter()
        for histogram in histograms:
            together.update(dict(histogram.bins))
        return cls(tuple(sorted(together.items())))
