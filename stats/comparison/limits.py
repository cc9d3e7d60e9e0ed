"""Whether a figure of one level keeps to a limit: at most or at least a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stats.model import POINTS_ONLY_BELOW

MET, BROKEN, UNCERTAIN = "met", "broken", "uncertain"


@dataclass(frozen=True)
class AgainstLimit:
    """`verdict`: broken if the mean is beyond the limit; met if its 95 % confidence interval is within; else uncertain.
    `low` and `high` are None below three runs."""

    mean: float
    low: float | None
    high: float | None
    verdict: str


def mean(values: Sequence[float]) -> float:
    """The geometric mean of figures that are all above 0, as comparisons use it; else the arithmetic one."""
    return math.exp(float(np.mean(np.log(values)))) if min(values) > 0 else float(np.mean(values))


def exceeds(value: float, limit: float, at_most: bool) -> bool:
    """Whether a value is beyond the limit."""
    return value > limit if at_most else value < limit


def against_limit(values: Sequence[float], limit: float, at_most: bool) -> AgainstLimit:
    """From the figure of each run of one level. The t interval is that of logarithms if all figures are above 0."""
    from scipy import stats

    centre = mean(values)
    if len(values) < POINTS_ONLY_BELOW:
        return AgainstLimit(centre, None, None, BROKEN if exceeds(centre, limit, at_most) else UNCERTAIN)
    is_log = min(values) > 0
    scaled = np.log(values) if is_log else np.array(values, dtype=float)
    half = float(stats.t.isf(0.025, len(values) - 1)) * float(scaled.std(ddof=1)) / math.sqrt(len(values))
    low, high = float(scaled.mean()) - half, float(scaled.mean()) + half
    if is_log:
        low, high = math.exp(low), math.exp(high)
    if exceeds(centre, limit, at_most):
        verdict = BROKEN
    else:
        verdict = UNCERTAIN if exceeds(high if at_most else low, limit, at_most) else MET
    return AgainstLimit(centre, low, high, verdict)
