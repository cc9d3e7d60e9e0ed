"""Which candidates of a search deserve more runs: each against the default, in the blocks that have both.

A candidate is tested after every round, so its interval spends alpha over its rounds (Lan and DeMets): of candidates
that equal the default, at most 5 % are ever called different, half of them better. With many candidates, some are. So a
search only proposes: a fresh campaign decides whether a candidate is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stats.model import POINTS_ONLY_BELOW
from stats.stopping.sequential import ALPHA, nominal, spent

UNSTABLE_P = 0.005  # of the F test after each round, for a candidate that varies like the others
UNSTABLE_FROM = 4  # blocks; fewer are too few to estimate a variance
SPENDING = "pocock"


@dataclass(frozen=True)
class CandidateStanding:
    """A candidate against the default after some rounds: mean log ratio, above 0 if it is better, and an interval that
    holds over all rounds, None below three blocks."""

    blocks: int
    mean: float
    low: float | None
    high: float | None

    @property
    def promising(self) -> bool:
        """Whether its interval excludes 0 on the better side."""
        return self.low is not None and self.low > 0


def standing(rounds: Sequence[Sequence[float]], most_blocks: int) -> CandidateStanding:
    """From the log ratios of each round in which the candidate ran; it is planned for at most `most_blocks`."""
    from scipy import stats

    ratios = np.array([ratio for each in rounds for ratio in each])
    count, mean = len(ratios), float(ratios.mean())
    blocks = [int(each) for each in np.cumsum([len(each) for each in rounds]) if each >= POINTS_ONLY_BELOW]
    analyses = list(dict.fromkeys(blocks))
    if not analyses:
        return CandidateStanding(count, mean, None, None)
    planned = max(most_blocks, count)
    p = nominal(analyses, [spent(SPENDING, ALPHA, each / planned) for each in analyses])
    half = float(stats.t.isf(p / 2, count - 1)) * float(ratios.std(ddof=1)) / math.sqrt(count)
    return CandidateStanding(count, mean, mean - half, mean + half)


def unstable(ratios: Mapping[str, Sequence[float]], least: float) -> set[str]:
    """The candidates whose log ratios vary more than those of the others (one-sided F test), and by more than `least`.

    Each is excluded from the others, and the test repeated until it adds none, so that they do not mask each other.
    """
    excluded: set[str] = set()
    while True:
        others = {name: each for name, each in ratios.items() if name not in excluded}
        added = {name for name in others if _varies_more(name, others, least)}
        if not added:
            return excluded
        excluded |= added


def _varies_more(name: str, ratios: Mapping[str, Sequence[float]], least: float) -> bool:
    from scipy import stats

    own = ratios[name]
    others = [np.array(each) for other, each in ratios.items() if other != name and len(each) > 1]
    df = sum(len(each) - 1 for each in others)
    if len(own) < UNSTABLE_FROM or df < UNSTABLE_FROM:
        return False
    variance = float(np.var(own, ddof=1))
    usual = sum(float(((each - each.mean()) ** 2).sum()) for each in others) / df
    if variance <= least**2:
        return False
    return usual == 0 or float(stats.f.sf(variance / usual, len(own) - 1, df)) < UNSTABLE_P
