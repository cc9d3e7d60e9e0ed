"""How many transactions a percentile of a run needs. Runs are compared by the logs of their percentiles; it is the
counts of latencies that can be merged, never percentiles."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def fewest(percentage: float, confidence: float = CONFIDENCE) -> int:
    """Transactions from which on the interval of a percentile is finite: with fewer, all of them are faster than the
    percentile more often than an interval may miss on one side. 368 for p99, 3688 for p99.9."""
    share = max(percentage, 100 - percentage) / 100
    return math.ceil(math.log((1 - confidence) / 2) / math.log(share))
