"""Latencies counted in bins, as fio's JSON+ gives them.

The agent counts transactions in bins of its own (agents/wire/histogram.py). These keep fio's, so that a percentile of
one job is the very figure that fio prints.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

FINEST = 64  # bins of a doubling: fio's FIO_IO_U_PLAT_VAL


@dataclass(frozen=True)
class Histogram:
    """`bins`: (nanoseconds, count), ascending. fio names a bin by its middle, which is within 0.8 % of its latencies
    (in bins of microseconds, as 2.x has them, of its whole microseconds: `unit_ns` is 1000 there)."""

    bins: tuple[tuple[int, int], ...]
    unit_ns: int = 1

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
            raise ValueError(f"percentage {percentage}: it must be above 0 and at most 100")
        reached = list(accumulate(count for _, count in self.bins))
        # Rounded, so that 99.9 % of 1000 is 999 as on paper, not a hair more.
        rank = math.ceil(round(self.count * percentage / 100, 6))
        return self.bins[bisect_left(reached, min(max(1, rank), self.count))][0]

    def stretches(self, per_doubling: int = FINEST) -> list[tuple[float, float, int]]:
        """(from, to, count) in ns without a gap from the first bin to the last, those that counted nothing included:
        each doubling of the latency in so many parts, a power of two. Every part is made of whole bins of fio's."""
        counted: Counter[int] = Counter()
        for ns, count in self.bins:
            counted[_part(ns // self.unit_ns, per_doubling)[0]] += count
        low, last, stretches = min(counted), max(counted), list[tuple[float, float, int]]()
        while low <= last:
            _, high = _part(low, per_doubling)
            stretches.append((float(low * self.unit_ns), float(high * self.unit_ns), counted[low]))
            low = high
        return stretches

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """All of them counted together: percentiles of several jobs or runs cannot be averaged."""
        together: Counter[int] = Counter()
        units = {1}
        for histogram in histograms:
            together.update(dict(histogram.bins))
            units.add(histogram.unit_ns)
        return cls(tuple(sorted(together.items())), max(units))


def _part(value: int, per_doubling: int) -> tuple[int, int]:
    """Where the part begins that a latency is in, in fio's units, and where it ends. fio's own parts are one unit wide
    up to 128, then two, then four."""
    width = max(1, (1 << max(0, value.bit_length() - 1)) // per_doubling)
    low = value // width * width
    return low, low + width
