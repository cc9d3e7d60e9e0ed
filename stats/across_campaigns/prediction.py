"""A newest campaign against earlier ones of the same thing: an interval for one more campaign, from their own noise.

The mean of a campaign is one value: its runs share a day. So the spread of the earlier means holds both the noise of
runs and that between campaigns, and Student's prediction interval for one more of them is exact for normal logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.verdicts import ComparisonVerdict, verdict
from common.wording import percent
from stats.comparison.pairs import one_of, t_estimate
from stats.model import Better, Interval, decide, logs, ratio_interval, ratio_percent

LEAST = 5  # earlier campaigns: the interval for one more is then 3 standard deviations wide on either side


@dataclass(frozen=True)
class Predicted:
    """The newest campaign in percent of the earlier ones; `interval` contains the change with 95 %, simultaneously
    with those of the other levels."""

    earlier: int
    change_percent: float
    interval: Interval
    p: float | None
    verdict: ComparisonVerdict

    @property
    def is_worse(self) -> bool:
        return verdict(self.verdict).is_worse

    def sentence(self, what: str, metric: str) -> str:
        low, high = self.interval
        change = f"{metric} {percent(self.change_percent)} (95 % CI {percent(low)} to {percent(high)})"
        return f"{what} {_VERBS[self.verdict]} the {self.earlier} earlier campaigns: {change}."


_VERBS: dict[ComparisonVerdict, str] = {
    "better": "is better than in",
    "worse": "is worse than in",
    "direction_better": "is likely better than in",
    "direction_worse": "is likely worse than in",
    "equivalent": "is equivalent to",
    "undetectable": "is within the usual noise of",
    "points_only": "has too few runs to compare with",
}


def against_history(
    earlier: Sequence[Sequence[float]], newest: Sequence[float], *, better: Better, delta: float, of: int = 1
) -> Predicted | None:
    """The runs of the newest campaign against those of each earlier one, as one of `of` levels (Bonferroni). None with
    fewer than LEAST earlier campaigns."""
    if len(earlier) < LEAST or not len(newest):
        return None
    means = np.array([logs(values).mean() for values in earlier])
    spread, count = float(means.std(ddof=1)), len(means)
    difference = float(logs(newest).mean() - means.mean())
    estimate = one_of(t_estimate(difference, spread * math.sqrt(1 + 1 / count), count - 1, spread, "prediction"), of)
    interval, interval_90 = ratio_interval(*estimate.interval), ratio_interval(*estimate.interval_90)
    verdict = decide(interval, interval_90, delta, better)
    return Predicted(count, ratio_percent(difference), interval, estimate.p, verdict)
