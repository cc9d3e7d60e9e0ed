"""Which candidates of a search deserve more runs: each against the default, in the blocks that have both.

A candidate is tested after every round, so its interval spends alpha over its rounds (Lan and DeMets): if it equals the
default, at most 5 % of such candidates are ever called different, half of them better. Of many candidates some will be:
a search proposes, and only a fresh campaign can say that one is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stats.model import POINTS_ONLY_BELOW
from stats.stopping.sequential import ALPHA, nominal, spent

UNSTABLE_P = 0.005  # of a candidate whose runs vary like those of the others, tested after each round
UNSTABLE_FROM = 4  # blocks: fewer say too little of a variation
SPENDING = "pocock"


@dataclass(frozen=True)
class Standing:
    """A candidate against the default after some rounds: log ratios, above 0 if it is better. The interval holds over
    all rounds; None below three blocks. `spread`: standard deviation of the ratios, None of a single one."""

    blocks: int
    mean: float
    low: float | None
    high: float | None
    spread: float | None

    @property
    def promising(self) -> bool:
        """Its interval excludes 0 on the good side."""
        return self.low is not None and self.low > 0


def standing(rounds: Sequence[Sequence[float]], most_blocks: int) -> Standing:
    """From the log ratios of each round in which the candidate ran; at most `most_blocks` were planned for it."""
    from scipy import stats

    ratios = np.array([ratio for each in rounds for ratio in each])
    count, spread = len(ratios), float(ratios.std(ddof=1)) if len(ratios) > 1 else None
    counts = [int(each) for each in np.cumsum([len(each) for each in rounds]) if each >= POINTS_ONLY_BELOW]
    looks = list(dict.fromkeys(counts))
    if spread is None or not looks:
        return Standing(count, float(ratios.mean()), None, None, spread)
    planned = max(most_blocks, count)
    p = nominal(looks, [spent(SPENDING, ALPHA, look / planned) for look in looks])
    half = float(stats.t.isf(p / 2, count - 1)) * spread / math.sqrt(count)
    mean = float(ratios.mean())
    return Standing(count, mean, mean - half, mean + half, spread)


def unstable(ratios: Mapping[str, Sequence[float]], least: float) -> set[str]:
    """The candidates whose log ratios vary more than those of the others (one-sided F test), and by more than `least`.

    Those found are taken out of the others until no further one is found, so that they do not hide each other.
    """
    found: set[str] = set()
    while True:
        usual = {name: each for name, each in ratios.items() if name not in found}
        more = {name for name in usual if _varies_more(name, usual, least)}
        if not more:
            return found
        found |= more


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
