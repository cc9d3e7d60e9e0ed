"""The number of transactions that a percentile of a run needs.

Runs are compared by the logarithms of their percentiles. Only counts of latencies can be merged, never percentiles."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def fewest(percentage: float, confidence: float = CONFIDENCE) -> int:
    """Return the number of transactions from which the interval of a percentile is finite: 368 for p99, 3688 for p99.9.

    With fewer, all transactions are faster than the percentile more often than the interval may miss on one side."""
    share = max(percentage, 100 - percentage) / 100
    return math.ceil(math.log((1 - confidence) / 2) / math.log(share))
