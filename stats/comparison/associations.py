"""What else changed: many figures of each level against the baseline, with a bounded share of false discoveries.

Every comparison is within blocks where there are some. p is adjusted over all figures and levels (Benjamini and
Hochberg 1995). The intervals have the matching false coverage rate (Benjamini and Yekutieli 2005): where runs vary,
the interval of a figure excludes 0 exactly if the figure differs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stats.comparison.pairs import benjamini_hochberg, in_blocks, in_common_blocks, welch_errors
from stats.model import NO_SPREAD, POINTS_ONLY_BELOW, Floats, Observation, by_level, ratio_percent

FALSE_SHARE = 0.05
_LARGEST_LOG = 50.0  # an interval that ends beyond this is practically unbounded


@dataclass(frozen=True)
class Association:
    """One figure at one level against the baseline; an association, which does not show a cause.

    `n`: common blocks, or runs of the level that has fewer. `change` with its interval `low` to `high` is in percent
    if it `is_ratio`, else in units of the figure. `effect`: the difference in standard deviations of one run
    (Hedges' g); None if runs of a level do not differ at all. `q`: p adjusted for all figures and levels."""

    figure: str
    level: str
    n: int
    before: float
    after: float
    is_ratio: bool
    change: float
    low: float
    high: float
    effect: float | None
    p: float
    q: float

    @property
    def differs(self) -> bool:
        return self.q <= FALSE_SHARE

    @property
    def rank(self) -> float:
        """By which the largest standardised effects come first."""
        return -math.inf if self.effect is None else -abs(self.effect)


@dataclass(frozen=True)
class _Difference:
    """Of logs where the figure `is_ratio`; `se` is 0 where runs do not vary."""

    figure: str
    level: str
    n: int
    before: float
    after: float
    is_ratio: bool
    mean: float
    se: float
    s: float
    df: float
    paired: bool


def associations(
    figures: Mapping[str, Sequence[Observation]], baseline: str, ratios: Collection[str] = ()
) -> list[Association]:
    """Every level against the baseline in every figure, the largest standardised effects first.

    Figures in `ratios` are compared as ratios if they are above 0 in all runs. A value that is not finite counts as
    missing. A figure is left out where it is the same in all runs, or where fewer than three blocks (or runs of either
    level) have it."""
    tested = [one for name, rows in figures.items() for one in _differences(name, rows, baseline, name in ratios)]
    if not tested:
        return []
    p = _p(tested)
    q = benjamini_hochberg(list(p))
    selected = max(1, sum(each <= FALSE_SHARE for each in q))
    half = _half_widths(tested, selected * FALSE_SHARE / len(tested))
    results = [_association(*each) for each in zip(tested, half, p, q, strict=True)]
    return sorted(results, key=lambda one: (one.rank, one.p))


def _differences(name: str, rows: Sequence[Observation], baseline: str, as_ratio: bool) -> list[_Difference]:
    rows = [row for row in rows if math.isfinite(row.value)]
    levels = by_level(rows)
    values = [row.value for row in rows]
    if baseline not in levels or min(values) == max(values):
        return []
    is_ratio = as_ratio and min(values) > 0
    others = [level for level in levels if level != baseline]
    tested = (_difference(name, levels[baseline], levels[level], level, is_ratio) for level in others)
    return [one for one in tested if one is not None]


def _difference(
    name: str, a: Sequence[Observation], b: Sequence[Observation], level: str, is_ratio: bool
) -> _Difference | None:
    paired = in_blocks([*a, *b])
    one, other = in_common_blocks(a, b, _floats) if paired else (_values(a), _values(b))
    n = min(len(one), len(other))
    if n < POINTS_ONLY_BELOW:
        return None
    before, after = float(one.mean()), float(other.mean())
    x, y = (np.log(one), np.log(other)) if is_ratio else (one, other)
    if paired:
        own = y - x
        s = float(own.std(ddof=1))
        # The standard deviation of one run: a difference has the noise of two.
        parts = (s / math.sqrt(n), s / math.sqrt(2), float(n - 1))
    else:
        parts = welch_errors(x, y)
    mean = float(y.mean() - x.mean())
    least = NO_SPREAD * max(1.0, float(np.abs(np.concatenate([x, y])).max()))
    se, s, df = parts if parts[0] > least else (0.0, 0.0, parts[2])
    return _Difference(name, level, n, before, after, is_ratio, mean if abs(mean) > least else 0.0, se, s, df, paired)


def _values(rows: Sequence[Observation]) -> Floats:
    return _floats([row.value for row in rows])


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def _p(tested: Sequence[_Difference]) -> Floats:
    from scipy import special

    errors, means, df = (np.array([getattr(one, name) for one in tested]) for name in ("se", "mean", "df"))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(df, -np.abs(means / errors))
    exact = np.array([_exact_p(one) for one in tested])
    return np.asarray(np.where(errors > 0, p, exact))


def _exact_p(one: _Difference) -> float:
    """Where the difference does not vary: the p of a permutation test of levels that do not overlap."""
    if one.mean == 0:
        return 1.0
    return 2.0 ** (1 - one.n) if one.paired else 2 / math.comb(2 * one.n, one.n)


def _half_widths(tested: Sequence[_Difference], alpha: float) -> Floats:
    from scipy import special

    df, errors = np.array([one.df for one in tested]), np.array([one.se for one in tested])
    return np.asarray(-special.stdtrit(df, min(alpha, 1.0) / 2) * errors)


def _association(one: _Difference, half: float, p: float, q: float) -> Association:
    ends = (one.mean, one.mean - half, one.mean + half)
    if one.is_ratio:
        ends = tuple(ratio_percent(min(end, _LARGEST_LOG)) for end in ends)  # type: ignore[assignment]  # three
    change, low, high = (float(end) for end in ends)
    effect = float((1 - 3 / (4 * one.df - 1)) * one.mean / one.s) if one.s else (0.0 if one.mean == 0 else None)
    return Association(
        one.figure, one.level, one.n, one.before, one.after, one.is_ratio, change, low, high, effect, float(p), float(q)
    )
