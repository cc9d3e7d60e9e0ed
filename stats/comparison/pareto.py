"""Which candidates of a search with two objectives are on the Pareto front, by the log ratios of their blocks.

A candidate is dominated only if another, or the baseline, is better in both objectives beyond noise. The test of a pair
is an intersection-union test: one-sided t tests, of both objectives. The variance of a block is pooled over candidates,
because most have few blocks. Each candidate is tested against many, so its 5 % are divided by their number. Candidates
of the same block share its baseline, which makes their test conservative. The 5 % hold for numbers of blocks that do
not depend on the results. A search repeats candidates by their results, so its classes guide it; they are no verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

ALPHA = 0.05
Key = TypeVar("Key", bound=Hashable)
Pair = tuple[float, float]  # of both objectives; ratios are above 0 if the candidate is better than the baseline


@dataclass(frozen=True)
class Noise:
    """Standard deviation of a log ratio from block to block in both objectives, pooled over all candidates, with its
    degrees of freedom: 0 if no candidate has two blocks."""

    deviations: Pair
    df: int

    def half_widths(self, blocks: int) -> Pair | None:
        """Half of the 95 % confidence interval of a mean; None without degrees of freedom."""
        if not self.df:
            return None
        t = _quantile(ALPHA / 2, self.df) / math.sqrt(blocks)
        return t * self.deviations[0], t * self.deviations[1]


@dataclass(frozen=True)
class Front(Generic[Key]):
    """`best`: candidates whose means neither another candidate nor the baseline exceeds in both objectives, ordered by
    the first. `possible`: their means are exceeded, but not beyond noise. `dominated`: all others."""

    best: list[Key]
    possible: list[Key]
    dominated: list[Key]
    means: Mapping[Key, Pair]
    noise: Noise


def front(ratios: Mapping[Key, Sequence[Pair]]) -> Front[Key]:
    """From the log ratios of the blocks of each candidate, at least one of each."""
    means = {key: _mean(each) for key, each in ratios.items()}
    noise = _noise(list(ratios.values()))
    order = sorted(means, key=lambda key: means[key])
    origin = (0.0, 0.0)  # the baseline
    best = [key for key in order if not any(_exceeds(each, means[key]) for each in [*means.values(), origin])]
    beaten = {key for key in order if key not in best and _is_dominated(key, means, ratios, noise)}
    others = [key for key in order if key not in best]
    possible = [key for key in others if key not in beaten]
    return Front(best, possible, [key for key in others if key in beaten], means, noise)


def ends(of: Front[Key], blocks: Mapping[Key, int], count: int) -> list[Key]:
    """Candidates of the front to confirm: the best by each objective, by the lower bounds of their intervals, then
    those that are farthest from these."""
    chosen: list[Key] = []
    for objective in (0, 1):
        at_end = max(of.best, key=lambda key: _lower_bound(of, key, blocks[key], objective), default=None)
        chosen += [] if at_end is None or at_end in chosen else [at_end]
    while len(chosen) < min(count, len(of.best)):
        rest = [key for key in of.best if key not in chosen]
        chosen.append(max(rest, key=lambda key: min(_distance(of, key, other) for other in chosen)))
    return chosen[:count]


def _mean(ratios: Sequence[Pair]) -> Pair:
    first, second = np.mean(np.array(ratios), axis=0)
    return float(first), float(second)


def _noise(ratios: Sequence[Sequence[Pair]]) -> Noise:
    repeated = [np.array(each) for each in ratios if len(each) > 1]
    df = sum(len(each) - 1 for each in repeated)
    if not df:
        return Noise((0.0, 0.0), 0)
    squares = sum(((each - each.mean(axis=0)) ** 2).sum(axis=0) for each in repeated) / df
    return Noise((math.sqrt(squares[0]), math.sqrt(squares[1])), df)


def _exceeds(one: Pair, other: Pair) -> bool:
    """Whether it is at least as good in both, and better in one."""
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def _is_dominated(key: Key, means: Mapping[Key, Pair], ratios: Mapping[Key, Sequence[Pair]], noise: Noise) -> bool:
    """Whether another candidate or the baseline is better beyond noise. The baseline's ratio to itself has none."""
    if not noise.df:
        return False
    own = 1 / len(ratios[key])
    others = [(means[other], 1 / len(ratios[other])) for other in means if other != key] + [((0.0, 0.0), 0.0)]
    t = _quantile(ALPHA / len(others), noise.df)
    return any(
        all(other[side] - means[key][side] > t * noise.deviations[side] * math.sqrt(own + variance) for side in (0, 1))
        for other, variance in others
    )


def _lower_bound(of: Front[Key], key: Key, blocks: int, objective: int) -> Pair:
    """The lower end of its interval in one objective, then its mean in the other, which decides between equal ends."""
    half = of.noise.half_widths(blocks) or (0.0, 0.0)
    return of.means[key][objective] - half[objective], of.means[key][1 - objective]


def _distance(of: Front[Key], one: Key, other: Key) -> float:
    """Between two candidates, in shares of the extent of the front."""
    total = 0.0
    for side in (0, 1):
        values = [of.means[key][side] for key in of.best]
        extent = max(values) - min(values)
        total += ((of.means[one][side] - of.means[other][side]) / extent) ** 2 if extent else 0.0
    return math.sqrt(total)


def _quantile(tail: float, df: int) -> float:
    from scipy import stats

    return float(stats.t.isf(tail, df))
