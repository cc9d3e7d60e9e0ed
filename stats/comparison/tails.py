"""Whether runs have heavy tails or two modes, so that ranks compare levels better than means do.

A few slow runs inflate a standard deviation, but hardly the typical distance between two runs. So the statistic is the
logarithm of their ratio: standard deviation by first quartile of the distances of all pairs (Rousseeuw and Croux's Qn),
the mean over samples. It does not depend on where a sample lies or how much it varies, so levels with unequal spreads
are not mistaken for heavy tails. Its critical value is that of simulated normal samples of the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stats.model import NO_SPREAD, Floats

LEAST = 8  # runs of each level, or blocks that two levels share
P_HEAVY = 0.05
# Of large campaigns, this many runs and samples are enough to find heavy tails.
_MOST_RUNS, _MOST_SAMPLES = 60, 10
_CAMPAIGNS, _MOST_NUMBERS, _SEED = 5_000, 2_000_000, 20130901


def heavy_tails(samples: Sequence[Floats], *, share_baseline: bool) -> bool:
    """Whether samples of logs have heavier tails than normal ones, p < 0.05. `share_baseline`: they are differences
    from the same baseline within blocks, so they resemble each other."""
    if not samples or min(len(sample) for sample in samples) < LEAST:
        return False
    chosen = [_thinned(sample, _MOST_RUNS) for sample in _spaced(samples, _MOST_SAMPLES)]
    ratios = np.array([float(_ratio(sample[None])[0]) for sample in chosen])
    if not np.isfinite(ratios).all():
        return False  # values that are often equal, of which a distance says nothing
    return float(ratios.mean()) > _critical(tuple(len(sample) for sample in chosen), share_baseline)


def _spaced(samples: Sequence[Floats], most: int) -> list[Floats]:
    positions = np.unique(np.linspace(0, len(samples) - 1, min(most, len(samples))).round().astype(int))
    return [samples[place] for place in positions]


def _thinned(sample: Floats, most: int) -> Floats:
    positions = np.unique(np.linspace(0, len(sample) - 1, min(most, len(sample))).round().astype(int))
    thinned: Floats = sample[positions]
    return thinned


def _ratio(samples: Floats) -> Floats:
    """Of each row: log of standard deviation by first quartile of distances; nan if either is nil."""
    first, second = np.triu_indices(samples.shape[1], 1)
    distances = np.abs(samples[:, first] - samples[:, second])
    place = distances.shape[1] // 4
    quartile = np.partition(distances, place, axis=1)[:, place]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(samples.std(axis=1, ddof=1) / quartile)
    return np.where(quartile < NO_SPREAD, np.nan, ratios)


@lru_cache(maxsize=256)
def _critical(sizes: tuple[int, ...], share_baseline: bool) -> float:
    """What the mean ratio of a share P_HEAVY of normal campaigns exceeds."""
    rng = np.random.default_rng(_SEED)
    pairs = sum(math.comb(size, 2) for size in sizes)
    campaigns = max(300, min(_CAMPAIGNS, _MOST_NUMBERS // pairs))
    baseline = rng.standard_normal((campaigns, max(sizes))) if share_baseline else np.zeros((1, max(sizes)))
    total = np.zeros(campaigns)
    for size in sizes:
        total += _ratio(rng.standard_normal((campaigns, size)) - baseline[:, :size])
    return float(np.quantile(total / len(sizes), 1 - P_HEAVY))
