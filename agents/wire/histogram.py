"""Log-linear histograms: how often each value occurred, exact to less than 0.4 %, however many values there were.

Buckets are as HdrHistogram's (https://hdrhistogram.github.io/HdrHistogram/): each power of two is cut into the same
number of equal parts, so that a bucket is never wider than a fixed share of what lies in it. With 128 parts a bucket
is at most 1/128 of its lower bound wide, and its middle at most 1/256 away from anything in it. Below 256 all is exact.
"""

from __future__ import annotations

import math
from operator import mul
from typing import Any, Mapping, Optional, Sequence

BITS = 7


def bucket_of(value: int, bits: int = BITS) -> int:
    """The bucket of a value >= 0, of 2 ** bits buckets for each power of two."""
    shift = max(0, value.bit_length() - 1 - bits)
    return (shift << bits) + (value >> shift)


def middle_of(bucket: int, bits: int = BITS) -> float:
    """The middle of what a bucket holds."""
    return low_of(bucket, bits) + ((1 << _shift_of(bucket, bits)) - 1) / 2


def low_of(bucket: int, bits: int = BITS) -> int:
    """The lowest value that a bucket holds."""
    shift = _shift_of(bucket, bits)
    return (bucket - (shift << bits)) << shift


def _shift_of(bucket: int, bits: int) -> int:
    return max(0, (bucket >> bits) - 1)


LARGEST = bucket_of(1 << 64)


class Histogram:
    """Counts by bucket; sum and both extremes are exact."""

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = self.sum = 0
        self.low: Optional[int] = None
        self.high: Optional[int] = None

    def add(self, values: Sequence[int], times: Sequence[int]) -> None:
        """Add each value >= 0 with its count."""
        if not values:
            return
        self.count += sum(times)
        self.sum += sum(map(mul, values, times))
        self.low = min(values) if self.low is None else min(self.low, min(values))
        self.high = max(values) if self.high is None else max(self.high, max(values))
        own = self.buckets
        for bucket, each in zip(map(bucket_of, values), times):
            own[bucket] = own.get(bucket, 0) + each

    def merge(self, other: Histogram) -> None:
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count, self.sum = self.count + other.count, self.sum + other.sum
        self.low = min((each for each in (self.low, other.low) if each is not None), default=None)
        self.high = max((each for each in (self.high, other.high) if each is not None), default=None)

    def percentile(self, percent: float, beyond: int = 0) -> float:
        """Return the value of the nearest rank, nan if empty. 100 is the maximum. `percent` has up to 3 decimals.

        `beyond` is a number of values above all counted ones, such as skipped transactions. Their ranks return inf.
        """
        if not self.count or self.low is None or self.high is None:
            return math.nan
        # In integers: 99.9 / 100 * 50000 is a little more than 49950, and the next rank in the tail may be far off.
        rank, counted = max(1, -(-round(percent * 1000) * (self.count + beyond) // 100_000)), 0
        if rank > self.count:
            return math.inf
        if rank == self.count:
            return float(self.high)
        for bucket in sorted(self.buckets):
            counted += self.buckets[bucket]
            if counted >= rank:
                return min(max(middle_of(bucket), self.low), self.high)
        return float(self.high)

    def as_json(self) -> dict[str, Any]:
        totals = {"count": self.count, "sum": self.sum, "min": self.low, "max": self.high}
        return {**totals, "buckets": [[bucket, self.buckets[bucket]] for bucket in sorted(self.buckets)]}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Histogram:
        """The inverse of as_json. KeyError, TypeError or ValueError for anything that as_json cannot have written."""
        histogram = cls()
        histogram.buckets = {int(bucket): int(times) for bucket, times in body["buckets"]}
        histogram.count, histogram.sum = int(body["count"]), int(body["sum"])
        if histogram.count:
            histogram.low, histogram.high = int(body["min"]), int(body["max"])
            if not 0 <= histogram.low <= histogram.high < 1 << 64:
                raise ValueError(f"min {histogram.low} and max {histogram.high}")
        if histogram.count != sum(histogram.buckets.values()) or min(histogram.buckets.values(), default=1) < 1:
            raise ValueError(f"the buckets contain {body['count']} values and further numbers")
        if any(not 0 <= bucket <= LARGEST for bucket in histogram.buckets):
            raise ValueError(f"a bucket outside 0 to {LARGEST}")
        return histogram
