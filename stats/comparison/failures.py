"""Whether the transactions or the runs of one level fail more often than those of another."""

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


def runs_fail_more(level: tuple[int, int], baseline: tuple[int, int], of: int = 1) -> bool:
    """Whether runs of a level fail more often than the baseline's; each is (failed runs, all runs).

    One-sided exact test of Fisher at 5 %, as one of so many levels (Bonferroni)."""
    from scipy import stats

    table = np.array([[failed, total - failed] for failed, total in (level, baseline)])
    return of * float(stats.fisher_exact(table, alternative="greater").pvalue) <= LEVEL
