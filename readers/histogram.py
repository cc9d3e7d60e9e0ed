"""Latencies counted in the bins of fio's JSON+ output.

The agent counts transactions in bins of its own (agents/wire/histogram.py). This module keeps fio's bins, so that a
percentile of one job equals the one that fio prints."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

FINEST = 64  # bins per doubling: FIO_IO_U_PLAT_VAL in fio


@dataclass(frozen=True)
class Histogram:
    """`bins`: (nanoseconds, count), ascending. fio names a bin by its middle, within 0.8 % of all latencies in it.
    fio 2.x counts whole microseconds: `unit_ns` is 1000."""

    bins: tuple[tuple[int, int], ...]
    unit_ns: int = 1

    @property
    def count(self) -> int:
        return sum(count for _, count in self.bins)

    @property
    def mean_ns(self) -> float:
        return sum(ns * count for ns, count in self.bins) / self.count

    def percentile(self, percentage: float) -> int:
        """Return the latency in ns that `percentage` (above 0, up to 100) of all I/Os do not exceed.

        As in fio, this is the first bin that reaches the share. Raises ValueError for any other percentage."""
        if not 0 < percentage <= 100:
            raise ValueError(f"percentage {percentage}: it must be above 0 and at most 100")
        reached = list(accumulate(count for _, count in self.bins))
        # Rounded, so that 99.9 % of 1000 is exactly 999.
        rank = math.ceil(round(self.count * percentage / 100, 6))
        return self.bins[bisect_left(reached, min(max(1, rank), self.count))][0]

    def stretches(self, per_doubling: int = FINEST) -> list[tuple[float, float, int]]:
        """Return (from, to, count) in ns, without gaps from the first bin to the last.

        Each doubling of the latency has `per_doubling` parts (a power of two), each made of whole fio bins."""
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
        """Return the sum of several histograms. Percentiles of several jobs or runs cannot be averaged."""
        together: Counter[int] = Counter()
        units = {1}
        for histogram in histograms:
            together.update(dict(histogram.bins))
            units.add(histogram.unit_ns)
        return cls(tuple(sorted(together.items())), max(units))


def _part(value: int, per_doubling: int) -> tuple[int, int]:
    """Return start and end of the part that contains `value`, in fio's units. fio's own bins are one unit wide up to
    128, then two, then four."""
    width = max(1, (1 << max(0, value.bit_length() - 1)) // per_doubling)
    low = value // width * width
    return low, low + width
