"""Whether the transactions of one level fail more often than those of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST_DIFFERENCE = 0.001  # of all transactions: a smaller difference does not prevent the verdict better
LEVEL = 0.05


def fails_more(level: Sequence[float], baseline: Sequence[float]) -> bool:
    """Whether the shares of failed transactions (0 to 1, one for each run) of a level are larger than the baseline's.

    One-sided Mann-Whitney test at 5 %, with means that differ by LEAST_DIFFERENCE or more. At least three runs of each
    are needed.
    """
    from scipy import stats

    if not level or not baseline or np.mean(level) - np.mean(baseline) < LEAST_DIFFERENCE:
        return False
    return bool(stats.mannwhitneyu(level, baseline, alternative="greater").pvalue <= LEVEL)
