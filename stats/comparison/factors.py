"""Several factors at once: the effect of each on average over the others, and whether two of them interact.

A full factorial in whole blocks is balanced: means of cells, of levels and of pairs of levels are sufficient. The
variance is that within blocks of cells that each have their own mean, so that no interaction counts as noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from common.errors import PlanError
from common.wording import p_value, percent, signed
from stats.comparison.pairs import Estimate, holm, judged
from stats.model import (
    NO_SPREAD,
    POINTS_ONLY_BELOW,
    PRELIMINARY_BELOW,
    Comparison,
    Floats,
    Interval,
    Metric,
    Observation,
    logs,
    ratio_interval,
    ratio_percent,
)

Levels = Mapping[str, Sequence[str]]  # factor -> its levels, the first one being what others are compared with


@dataclass(frozen=True)
class Crossed:
    """Logs of a full factorial, of shape (blocks, levels of the first factor, levels of the second ...); `left_out`
    counts runs of blocks that are not whole. `s` is the standard deviation within blocks, with `df`. `plots`: factors
    for whose levels the server is restarted; runs with the same levels of them share a start (a split plot)."""

    levels: dict[str, list[str]]
    logs: Floats
    left_out: int
    s: float
    df: int
    plots: frozenset[str] = frozenset()

    @property
    def blocks(self) -> int:
        return len(self.logs)

    @property
    def is_split(self) -> bool:
        """Whether a start holds several runs, of which there are several starts in a block."""
        varied = {name for name, own in self.levels.items() if len(own) > 1}
        return bool(varied & self.plots) and bool(varied - self.plots)

    def error_of(self, *names: str) -> Crossed:
        """With the error for effects of these factors: that of whole plots where only their levels change, else that
        within a start. `s` is of one run."""
        if not self.is_split:
            return self
        starts = self.logs.mean(axis=tuple(n for n, name in enumerate(self.levels, 1) if name not in self.plots))
        s, df = _spread(starts)
        runs = self.logs.size / starts.size
        if set(names) <= self.plots:
            return replace(self, s=s * math.sqrt(runs), df=df)
        left = max(0.0, self.s**2 * self.df - runs * s**2 * df)
        return replace(self, s=math.sqrt(left / (self.df - df)), df=self.df - df)

    def means(self, *names: str) -> Floats:
        """Over blocks and all other factors; its axes are in the order of the design."""
        away = [0, *(place for place, name in enumerate(self.levels, 1) if name not in names)]
        return np.asarray(self.logs.mean(axis=tuple(away)))

    def of_level(self, name: str, place: int) -> Floats:
        return self.logs.take(place, axis=1 + list(self.levels).index(name)).ravel()


def crossed(
    levels: Levels,
    cells: Mapping[str, Sequence[str]],
    rows: Sequence[Observation],
    plots: frozenset[str] = frozenset(),
) -> Crossed:
    """The runs of whole blocks by their cells; `cells`: the labels of the factors for the level of a row.

    PlanError if combinations are missing, or fewer than three blocks have all of them.
    """
    every = list(product(*levels.values()))
    if sum(len(own) > 1 for own in levels.values()) < 2 or sorted(map(tuple, cells.values())) != sorted(every):
        raise PlanError("design", "not every combination of levels was run", hint="interactions need a full factorial")
    positions = [{label: place for place, label in enumerate(own)} for own in levels.values()]
    at = {level: tuple(place[label] for place, label in zip(positions, cells[level], strict=True)) for level in cells}
    blocks = {block: place for place, block in enumerate(sorted({row.block for row in rows}))}
    table = np.full((len(blocks), *map(len, levels.values())), np.nan)
    for row, value in zip(rows, logs([row.value for row in rows]), strict=True):
        table[blocks[row.block], *at[row.level]] = value
    whole = table[~np.isnan(table).reshape(len(blocks), -1).any(axis=1)]
    if len(whole) < POINTS_ONLY_BELOW:
        have = {0: "no block has", 1: "only 1 block has"}.get(len(whole), f"only {len(whole)} blocks have")
        raise PlanError("blocks", f"{have} every combination", hint="at least three are needed")
    s, df = _spread(whole)
    return Crossed({name: list(own) for name, own in levels.items()}, whole, len(rows) - whole.size, s, df, plots)


def _spread(whole: Floats) -> tuple[float, int]:
    y = whole.reshape(len(whole), -1)
    left = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True) + y.mean()
    df = (y.shape[0] - 1) * (y.shape[1] - 1)
    return math.sqrt(float((left**2).sum()) / df), df


def main_effects(crossed: Crossed, metric: Metric, delta: float) -> list[tuple[str, Comparison]]:
    """Each factor's levels against its first one, on average over the other factors; Bonferroni within a factor."""
    return [(name, one) for name in crossed.levels for one in _effects_of(crossed, name, metric, delta)]


def _effects_of(crossed: Crossed, name: str, metric: Metric, delta: float) -> list[Comparison]:
    crossed = crossed.error_of(name)
    labels, means = crossed.levels[name], crossed.means(name)
    se = crossed.s * math.sqrt(2 * len(labels) / crossed.logs.size)
    method = "means of a full factorial, within blocks" + (", Bonferroni" if len(labels) > 2 else "")
    if crossed.is_split:
        method += ", error between starts" if name in crossed.plots else ", error within a start"
    return [
        judged(
            crossed.of_level(name, 0),
            crossed.of_level(name, place),
            _estimate(crossed, float(means[place] - means[0]), se, len(labels) - 1, method),
            metric,
            delta,
            (f"{name} {labels[0]}", f"{name} {labels[place]}"),
        )
        for place in range(1, len(labels))
    ]


def _estimate(crossed: Crossed, difference: float, se: float, family: int, method: str) -> Estimate:
    from scipy import special

    alpha = 0.05 / family
    half, half_90 = (float(special.stdtrit(crossed.df, 1 - each / 2)) * se for each in (alpha, 2 * alpha))
    p = None if se < NO_SPREAD else min(1.0, family * 2 * float(special.stdtr(crossed.df, -abs(difference) / se)))
    interval, interval_90 = ((difference - each, difference + each) for each in (half, half_90))
    error = se if se >= NO_SPREAD else None
    return Estimate(
        difference, interval, interval_90, p, crossed.s, method, se=error, df=crossed.df, alpha=alpha, pooled=True
    )


@dataclass(frozen=True)
class Interaction:
    """How much more (or less) the second factor does at one level of the first than at another: a ratio of ratios.

    `p` is of the F test that all effects are the same everywhere, adjusted (Holm) for several pairs of
    factors. The result is the largest of `contrasts` ratios, with an interval that holds for all of them (Bonferroni).
    """

    factors: tuple[str, str]
    a_levels: tuple[str, str]
    b_levels: tuple[str, str]
    effects_percent: tuple[float, float]
    ratio_percent: float
    interval: Interval
    p: float | None
    contrasts: int
    s: float
    df: int
    blocks: int
    delta: float

    @property
    def significant(self) -> bool:
        return self.p < 0.05 if self.p is not None else abs(self.ratio_percent) > 0

    @property
    def alone(self) -> bool:
        """Whether all the interval lies within the margin: the two factors act alone, as far as matters."""
        return max(map(abs, self.interval)) < 100 * self.delta

    def sentence(self) -> str:
        """Whether two factors interact, with the two effects and their ratio, in one sentence."""
        (low_a, high_a), (low_b, high_b), (first, second) = self.a_levels, self.b_levels, self.effects_percent
        one, other = self.factors
        effects = (
            f"{other}={high_b} against {other}={low_b} is {percent(first)} at {one}={low_a} and {percent(second)} "
            f"at {one}={high_a}"
        )
        largest = f", largest of {self.contrasts} contrasts" if self.contrasts > 1 else ""
        # Of several contrasts the interval is of one of them, and p of all.
        tested = "" if self.p is None or self.contrasts > 1 else f", {p_value(self.p)}"
        low, high = self.interval
        ratio = f"ratio {percent(self.ratio_percent)}, 95 % CI {signed(low)} to {signed(high)} %{largest}{tested}"
        begin = "Preliminary: " if self.blocks < PRELIMINARY_BELOW else ""
        return f"{begin}{self._finding()}: {effects} ({ratio})."

    def _finding(self) -> str:
        pair, overall = " and ".join(self.factors), ""
        if self.contrasts > 1 and self.p is not None:
            overall = f" (F test, {p_value(self.p)})"
        if self.alone:
            return f"{pair} act independently within {100 * self.delta:g} %"
        if self.significant:
            uncertain = self.interval[0] <= 0 <= self.interval[1]
            return f"{pair} interact{overall}" + (", but no single contrast is certain" if uncertain else "")
        return f"Interaction of {pair} is inconclusive{overall}"


def interactions(crossed: Crossed, delta: float) -> list[Interaction]:
    """Of every pair of factors, p adjusted for their number."""
    varied = [name for name, own in crossed.levels.items() if len(own) > 1]
    unadjusted = [_interaction(crossed, pair, delta) for pair in combinations(varied, 2)]
    if crossed.s < NO_SPREAD:
        return unadjusted
    adjusted = holm([one.p or 0.0 for one in unadjusted])
    return [replace(one, p=p) for one, p in zip(unadjusted, adjusted, strict=True)]


def _interaction(crossed: Crossed, pair: tuple[str, str], delta: float) -> Interaction:
    crossed = crossed.error_of(*pair)
    means = crossed.means(*pair)
    rows, columns = means.shape
    each = crossed.logs.size // means.size  # runs of each pair of levels
    ratios = means[1:, 1:] - means[1:, :1] - means[:1, 1:] + means[0, 0]
    i, j = np.unravel_index(int(np.argmax(np.abs(ratios))), ratios.shape)
    own = _estimate(crossed, float(ratios[i, j]), 2 * crossed.s / math.sqrt(each), ratios.size, "")
    a_levels, b_levels = (crossed.levels[name] for name in pair)
    effects = means[0, j + 1] - means[0, 0], means[i + 1, j + 1] - means[i + 1, 0]
    left = means - means.mean(axis=0) - means.mean(axis=1, keepdims=True) + means.mean()
    return Interaction(
        factors=pair,
        a_levels=(a_levels[0], a_levels[int(i) + 1]),
        b_levels=(b_levels[0], b_levels[int(j) + 1]),
        effects_percent=(ratio_percent(float(effects[0])), ratio_percent(float(effects[1]))),
        ratio_percent=ratio_percent(own.difference),
        interval=ratio_interval(*own.interval),
        p=_omnibus_p(each * float((left**2).sum()), (rows - 1) * (columns - 1), crossed),
        contrasts=ratios.size,
        s=crossed.s,
        df=crossed.df,
        blocks=crossed.blocks,
        delta=delta,
    )


def _omnibus_p(squares: float, df: int, crossed: Crossed) -> float | None:
    from scipy import special

    return None if crossed.s < NO_SPREAD else float(special.fdtrc(df, crossed.df, squares / df / crossed.s**2))
