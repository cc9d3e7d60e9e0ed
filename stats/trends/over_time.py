"""The same thing measured again and again: is this run out of line, and when did the level change?

Values are those of runs of one spec on one host, in the order of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median

import numpy as np

from common.wording import percent
from stats.model import Floats, figure, logs, ratio_percent
from stats.trends.dependence import AUTOCORRELATIONS, autocorrelation_beside

# Runs before the judged one: fewer do not determine a variance, and older ones are not comparable.
FEWEST, MOST = 10, 30
FAR = 3.5
# The standard deviation of a normal distribution in median absolute deviations.
MAD = 1.4826
# 1 % of each search is up to 5 % of false changes, as histories are autocorrelated and how much is estimated.
SIMULATIONS, SIGNIFICANT = 1000, 0.01
SETTLING = 400  # an autocorrelation of 0.985 decays to 0.2 % in so many values
LEAST_STRETCH = 5
MOST_POINTS = 300
_SEED = 20130901


@dataclass(frozen=True)
class Score:
    """A run beside the `of` before it: how many robust standard deviations, and how many percent, from their median."""

    z: float
    change_percent: float
    of: int
    alert: bool

    def sentence(self, what: str) -> str:
        where = "out of line" if self.alert else "in line"
        return f"{what} is {where} with the {self.of} runs before it: {percent(self.change_percent)} (z {self.z:.2f})."


def score(value: float, before: Sequence[float], delta: float) -> Score | None:
    """None while fewer than ten runs came before. An alert is far off, and by as much as matters."""
    return _score(float(logs([value])[0]), logs(before)[-MOST:].tolist(), delta)


def _score(value: float, window: Sequence[float], delta: float) -> Score | None:
    """Of logarithms. Plain lists: a history is a thousand windows, each too short to be worth an array."""
    if len(window) < FEWEST:
        return None
    middle = median(window)
    spread = MAD * median(abs(one - middle) for one in window) * math.sqrt(1 + 1 / len(window))
    away = value - middle
    z = away / spread if spread else math.copysign(math.inf, away) if away else 0.0
    change = ratio_percent(away)
    return Score(z, change, len(window), abs(z) > FAR and abs(change) >= 100 * delta)


def scores(values: Sequence[float], delta: float) -> list[Score | None]:
    """Each run against those before it. An outlier is not used to judge later runs, until several in a row show that
    the level has changed."""
    run_scores: list[Score | None] = []
    quiet, row = list[float](), list[float]()
    for value in logs(values).tolist():
        score = _score(value, quiet[-MOST:], delta)
        run_scores.append(score)
        if score is None or not score.alert:
            quiet, row = [*quiet[-MOST:], value], []
            continue
        row.append(value)
        if len(row) == FEWEST:
            quiet, row = row, []
    return run_scores


@dataclass(frozen=True)
class ChangePoint:
    """The level changed with the run at place `at`. `p` is None where what changed is known: `why`."""

    at: int
    before: float
    after: float
    change_percent: float
    p: float | None
    why: str = ""

    def sentence(self, unit: str = "") -> str:
        change = f"{figure(self.before)} to {figure(self.after)} {unit}".strip() + f" ({percent(self.change_percent)})"
        if self.why:
            return f"It changed from {change} with {self.why}."
        return f"It changed from {change} without a known reason, p < {SIGNIFICANT:g}."


def stretches(environments: Sequence[str]) -> list[slice]:
    """Neighbours of the same kernel and PostgreSQL: a change of these splits the series."""
    starts = [
        0,
        *(place for place, (one, two) in enumerate(pairwise(environments), 1) if one != two),
        len(environments),
    ]
    return [slice(*ends) for ends in pairwise(starts)] if environments else []


def change_points(values: Sequence[float], environments: Sequence[str], delta: float) -> list[ChangePoint]:
    """E-divisive (Matteson and James 2014) within each stretch, p < .01 and by `delta` or more; and the changes from
    one stretch to the next, of any size."""
    y, parts = logs(values), stretches(environments)
    positions: dict[int, tuple[float | None, str]] = {}
    for part in parts:
        positions |= {at: (p, "") for at, p in _divided(y, max(part.start, part.stop - MOST_POINTS), part.stop)}
    for before, after in pairwise(parts):
        positions[after.start] = (None, f"{environments[after.start]} instead of {environments[before.start]}")
    changes = _changes(y, positions)
    while small := [one for one in changes if not one.why and abs(one.change_percent) < 100 * delta]:
        del positions[min(small, key=lambda one: abs(one.change_percent)).at]
        changes = _changes(y, positions)
    return changes


def _changes(y: Floats, positions: Mapping[int, tuple[float | None, str]]) -> list[ChangePoint]:
    """Each with the medians of what lies between it and its neighbours."""
    ends = [0, *sorted(positions), len(y)]
    changes = []
    for begin, at, end in zip(ends, ends[1:], ends[2:], strict=False):
        before, after = float(np.median(y[begin:at])), float(np.median(y[at:end]))
        p, why = positions[at]
        changes.append(ChangePoint(at, math.exp(before), math.exp(after), ratio_percent(after - before), p, why))
    return changes


def _divided(y: Floats, begin: int, end: int) -> list[tuple[int, float]]:
    """Places where a stretch is divided, with p, each part divided further."""
    part = y[begin:end]
    if len(part) < 2 * LEAST_STRETCH:
        return []
    apart = np.abs(part[:, None] - part[None, :])
    at, most = _best(apart)
    p = _simulated_p(part, at, most)
    if p >= SIGNIFICANT:
        return []
    return [*_divided(y, begin, begin + at), (begin + at, p), *_divided(y, begin + at, end)]


def _best(apart: Floats) -> tuple[int, float]:
    """Where two parts differ most, and by how much: the energy between them less that within each."""
    n = len(apart)
    left_n = np.arange(LEAST_STRETCH, n - LEAST_STRETCH + 1)
    right_n = n - left_n
    inside = 2 * np.cumsum(np.tril(apart, -1).sum(axis=1))[left_n - 1]  # pairs of the left part, both ways
    reached = np.cumsum(apart.sum(axis=1))[left_n - 1]
    between = reached - inside
    outside = apart.sum() - inside - 2 * between
    energy = 2 * between / (left_n * right_n) - inside / (left_n * (left_n - 1)) - outside / (right_n * (right_n - 1))
    scaled = energy * left_n * right_n / n
    place = int(np.argmax(scaled))
    return int(left_n[place]), float(scaled[place])


def _simulated_p(part: Floats, at: int, most: float) -> float:
    """How often a series without a change, as autocorrelated as this one beside its change, differs as much.

    Its innovations are drawn from those of this series, its autocorrelation by likelihood (a sieve bootstrap). They are
    scaled, because the place and the size of each change were fitted to the same values. It ends once p cannot be below
    SIGNIFICANT any more.
    """
    from scipy import signal

    rng = np.random.default_rng(_SEED)
    positions, weights = _beside(part, at)
    ends = [0, *positions, len(part)]
    left = np.concatenate([part[one:other] - part[one:other].mean() for one, other in pairwise(ends)])
    scale = math.sqrt(len(part) / (len(part) - 2 * len(ends[1:])))
    exceeded = 0
    for tried, phi in enumerate(rng.choice(AUTOCORRELATIONS, size=SIMULATIONS, p=weights), 1):
        innovations = left[1:] - phi * left[:-1]
        drawn = scale * rng.choice(innovations - innovations.mean(), size=len(part) + SETTLING)
        series = signal.lfilter([1.0], [1.0, -phi], drawn)[SETTLING:]
        exceeded += _best(np.abs(series[:, None] - series[None, :]))[1] >= most
        if exceeded + 1 >= SIGNIFICANT * (SIMULATIONS + 1):
            return (exceeded + 1) / (tried + 1)
    return (exceeded + 1) / (SIMULATIONS + 1)


def _beside(part: Floats, at: int) -> tuple[list[int], Floats]:
    """The change at this place, with others beside it where they explain more than they cost, and how likely each
    autocorrelation is then. A second change would otherwise pass for autocorrelation."""
    further = [
        [begin + _best(np.abs(part[begin:end, None] - part[None, begin:end]))[0]]
        for begin, end in ((0, at), (at, len(part)))
        if end - begin >= 2 * LEAST_STRETCH
    ]
    choices = [[at], *(sorted([at, *one]) for one in further), sorted([at, *chain(*further)])]
    fits = [(positions, *autocorrelation_beside(part, positions)) for positions in choices]
    positions, weights, _ = max(fits, key=lambda fit: fit[2])
    return positions, weights
