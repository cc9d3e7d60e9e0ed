"""Least squares of logs on levels and blocks, with the blocks absorbed: exact where cells are missing, too, and as
quick for two hundred blocks as for two.

The normal equations of an additive model lose one set of effects by elimination (the intra-block analysis of incomplete
block designs, John & Williams, Cyclic and Computer Generated Designs, 1995, ch. 1.3): what is left to solve has a row
and a column for each level, however many blocks there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stats.model import NO_SPREAD, Floats, Observation, by_level, logs


@dataclass(frozen=True)
class Fit:
    """`effects`: of the levels, up to a common constant, and their `covariance` in units of s squared. `rank_lost` if
    the cells do not determine all levels."""

    levels: list[str]
    effects: Floats
    covariance: Floats
    df: int
    s: float
    levels_p: float | None
    rank_lost: bool

    def contrast(self, a: str, b: str) -> tuple[float, float]:
        """Difference of mean logs of b and a, and its standard error."""
        one, other = self.levels.index(a), self.levels.index(b)
        pair = np.ix_([one, other], [one, other])
        (same, cross), (_, like) = self.covariance[pair]
        variance = max(0.0, float(same + like - 2 * cross))
        return float(self.effects[other] - self.effects[one]), self.s * math.sqrt(variance)

    def correlation(self, baseline: str, others: Sequence[str]) -> Floats:
        """Of the contrasts with the baseline."""
        base, own = self.levels.index(baseline), [self.levels.index(name) for name in others]
        signs = np.zeros((len(own), len(self.levels)))
        signs[:, base] = -1.0
        signs[np.arange(len(own)), own] = 1.0
        covariance = signs @ self.covariance @ signs.T
        errors = np.sqrt(np.diag(covariance))
        return np.asarray(covariance / np.outer(errors, errors))


def fit(rows: Sequence[Observation], *, blocked: bool) -> Fit:
    """Of all rows; `levels_p` is of the hypothesis that all levels are the same, None without spread."""
    levels = list(by_level(rows))
    level = indices([row.level for row in rows], levels)
    blocks = sorted({row.block for row in rows}) if blocked else [0]
    block = indices([row.block for row in rows], blocks) if blocked else np.zeros(len(rows), dtype=np.intp)
    y = logs([row.value for row in rows])
    y = y - y.mean()  # the constant is not needed, but its digits would cost precision
    counts = np.zeros((len(levels), len(blocks)))
    np.add.at(counts, (level, block), 1.0)
    of_block = counts.sum(axis=0)
    block_mean = np.bincount(block, y, len(blocks)) / of_block
    # Levels without what their blocks explain: information, and what it is about.
    information = np.diag(counts.sum(axis=1)) - (counts / of_block) @ counts.T
    adjusted = np.bincount(level, y, len(levels)) - counts @ block_mean
    inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
    effects = inverse @ adjusted
    rank = int(np.linalg.matrix_rank(information, tol=1e-9 * max(1.0, float(information.max())), hermitian=True))
    within = block_mean - (counts / of_block).T @ effects
    left = float(((y - effects[level] - within[block]) ** 2).sum())
    df = len(rows) - rank - len(blocks)
    s = math.sqrt(left / df) if df > 0 else 0.0
    explained = float(effects @ adjusted)
    return Fit(levels, effects, inverse, df, s, _p(explained, rank, s, df), rank < len(levels) - 1)


def indices(values: Sequence[str] | Sequence[int], known: Sequence[str] | Sequence[int]) -> np.ndarray:
    """Of each value: where it stands among those that are known."""
    place = {value: number for number, value in enumerate(known)}
    return np.array([place[value] for value in values], dtype=np.intp)


def _p(explained: float, rank: int, s: float, df: int) -> float | None:
    from scipy import special

    if s < NO_SPREAD or not rank:
        return None
    return float(special.fdtrc(rank, df, max(0.0, explained) / rank / s**2))
