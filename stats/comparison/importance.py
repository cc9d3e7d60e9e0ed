"""How much of the variation of results depends on each setting: permutation importance of a Bayesian regression.

The regression has a curve for each setting and the interactions of all pairs. A setting's importance is half the mean
squared change of the predicted result if the setting has the values of the other trials, as a share of the variance of
the results: the total Sobol index, for the values that were tried. If these depend on each other, the regression also
predicts combinations that are far from all trials; a share above 1 is shown as 1. The intervals are credible ones, so
they hold as far as the regression does. They are wide if good values of two settings were tried together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_TRIALS, LEAST_PER_SETTING = 15, 3
DEGREES = (1, 2, 3)
FAR = 100.0  # prior standard deviation of the mean, in those of the noise
# Priors of the logarithms of the other prior standard deviations, in those of the noise: centre and standard deviation,
# of all curves, of all interactions, and of the factor of each setting.
CURVES, PAIRS, FACTOR = (math.log(3.0), 1.5), (math.log(0.3), 1.5), (0.0, 1.0)
STEP, BURN_IN, DRAWS, THIN = 0.7, 300, 300, 2  # of the Metropolis sampler
RESOLVED_P = 0.025
MOST_SHIFTS = 24  # other trials whose value each trial gets


@dataclass(frozen=True)
class VarianceShare:
    """Of the variance of the results, with its 95 % credible interval. 1 is all of it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Importance:
    """`skill`: share of the variance that the regression predicts for a trial from the other trials. `p`: of the
    Wilcoxon test that its errors are smaller than without settings. `settings`: share of the variance that depends on
    each setting, alone or together with others, in the order of the columns."""

    trials: int
    skill: float
    p: float
    settings: list[VarianceShare]

    @property
    def is_resolved(self) -> bool:
        """Whether the settings predict results better than the mean does. Otherwise, the shares mean nothing."""
        return self.skill > 0 and self.p < RESOLVED_P


@dataclass(frozen=True)
class _Features:
    """Columns of the regression. `owners`: the setting of a curve, the two of an interaction, none of the mean."""

    table: Array
    owners: list[tuple[int, ...]]

    def scale(self, prior: Array) -> Array:
        """Prior standard deviations of all columns. `prior`: logarithms, see CURVES."""
        common = {0: math.log(FAR), 1: prior[0], 2: prior[1]}
        return np.exp([common[len(each)] + sum(prior[2 + one] for one in each) for each in self.owners])


def least_trials(settings: int) -> int:
    """The fewest trials with a result for which `importance` is computed."""
    return max(LEAST_TRIALS, LEAST_PER_SETTING * settings)


def importance(
    positions: Sequence[Sequence[float | None]],
    is_choice: Sequence[bool],
    results: Sequence[float],
    blocks: Sequence[Mapping[int, int]],
    seed: int,
) -> Importance:
    """`positions`: a row for each trial, from 0 to 1 in the range of each setting, None for a setting that does not
    apply. `blocks`: round -> number of blocks that a result is the mean of. At least `least_trials` rows."""
    y = np.array(results, dtype=float)
    variance = float(y.var(ddof=1))  # half the mean squared difference of two trials, as in _changes
    if variance == 0:
        return Importance(len(y), 0.0, 1.0, [VarianceShare(0, 0, 0) for _ in is_choice])
    columns = [_curve([row[at] for row in positions], own) for at, own in enumerate(is_choice)]
    features, noise = _features(columns), _noise(blocks)
    priors, coefficients = _sampled(features, y - y.mean(), noise, len(is_choice), np.random.default_rng(seed))
    shares = [_share(_changes(columns, features, at, coefficients) / (2 * variance)) for at in range(len(is_choice))]
    return Importance(len(y), *_skill(features, y, noise, priors), shares)


def _noise(blocks: Sequence[Mapping[int, int]]) -> Array:
    """Covariance of the errors, in variances of one block: trials of a round share the runs of the default."""
    rounds = sorted({number for own in blocks for number in own})
    counts = np.array([[own.get(number, 0) for number in rounds] for own in blocks], dtype=float)
    totals, sizes = counts.sum(1), counts.max(0)
    shared = counts / totals[:, None]
    return np.asarray(np.diag(1 / totals) + (shared / sizes) @ shared.T, dtype=float)


def _curve(positions: Sequence[float | None], is_choice: bool) -> Array:
    """The features of one setting: Legendre polynomials of a number, an indicator of each choice, and one of trials
    that it does not apply to."""
    at = np.array([math.nan if each is None else each for each in positions])
    missing = np.isnan(at)
    if is_choice:
        return np.array([at == choice for choice in np.unique(at[~missing])] + [missing], dtype=float).T
    z = np.where(missing, 0.0, 2 * at - 1)
    curves = [math.sqrt(2 * n + 1) / n**2 * np.polynomial.Legendre.basis(n)(z) * ~missing for n in DEGREES]
    return np.array([*curves, missing], dtype=float).T


def _features(columns: Sequence[Array]) -> _Features:
    parts: list[Array] = [np.ones((len(columns[0]), 1))]
    owners: list[tuple[int, ...]] = [()]
    for one, curve in enumerate(columns):
        parts.append(curve)
        owners += [(one,)] * curve.shape[1]
        for other in range(one):
            product = _straight(curve)[:, :, None] * _straight(columns[other])[:, None, :]
            parts.append(product.reshape(len(curve), -1))
            owners += [(other, one)] * parts[-1].shape[1]
    return _Features(np.hstack(parts), owners)


def _straight(curve: Array) -> Array:
    """The features that take part in interactions: the line of a number, all indicators of choices."""
    is_choice = bool(np.isin(curve, (0.0, 1.0)).all())
    return curve[:, :-1] if is_choice else curve[:, :1]


def _sampled(
    features: _Features, y: Array, noise: Array, settings: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of the prior's logarithms, and of the coefficients, from their posterior."""
    centre = np.array([CURVES[0], PAIRS[0], *[FACTOR[0]] * settings])
    width = np.array([CURVES[1], PAIRS[1], *[FACTOR[1]] * settings])

    def density(prior: Array) -> float:
        return (
            _evidence(features.table * features.scale(prior), y, noise)
            - float((((prior - centre) / width) ** 2).sum()) / 2
        )

    prior, own = centre, density(centre)
    priors, coefficients = [], []
    for step in range(BURN_IN + DRAWS * THIN):
        proposed = prior + STEP * width * rng.standard_normal(len(prior)) * (rng.random(len(prior)) < 2 / len(prior))
        other = density(proposed)
        if math.log(rng.random()) < other - own:
            prior, own = proposed, other
        if step >= BURN_IN and step % THIN == 0:
            priors.append(prior)
            scale = features.scale(prior)
            coefficients.append(scale * _draw(features.table * scale, y, noise, rng))
    return np.array(priors), np.array(coefficients)


def _evidence(table: Array, y: Array, noise: Array) -> float:
    """Log marginal likelihood up to a constant; the variance of the noise is integrated out."""
    factor = np.linalg.cholesky(noise + table @ table.T)
    scaled = np.linalg.solve(factor, y)
    return float(-0.5 * len(y) * math.log(float(scaled @ scaled)) - np.log(np.diag(factor)).sum())


def _draw(table: Array, y: Array, noise: Array, rng: np.random.Generator) -> Array:
    """Coefficients from their posterior, by conditioning a draw of the prior on the results (Matheron's rule)."""
    covariance = noise + table @ table.T
    residual = float(y @ np.linalg.solve(covariance, y))
    size = math.sqrt(residual / rng.chisquare(len(y)))
    prior = size * rng.standard_normal(table.shape[1])
    error = size * np.linalg.cholesky(noise) @ rng.standard_normal(len(y))
    return np.asarray(prior + table.T @ np.linalg.solve(covariance, y - table @ prior - error), dtype=float)


def _changes(columns: Sequence[Array], features: _Features, setting: int, draws: Array) -> Array:
    """Of each draw, the mean squared change of the prediction if the setting has the value of another trial."""
    own = [at for at, each in enumerate(features.owners) if setting in each]
    count, table = len(columns[0]), features.table[:, own]
    shifts = np.unique(np.linspace(1, count - 1, MOST_SHIFTS).round().astype(int))
    products = np.zeros((len(own), len(own)))
    for shift in shifts:
        swapped = list(columns)
        swapped[setting] = np.roll(columns[setting], shift, axis=0)
        difference = table - _features(swapped).table[:, own]
        products += difference.T @ difference / (count * len(shifts))
    return np.asarray(((draws[:, own] @ products) * draws[:, own]).sum(1), dtype=float)


def _skill(features: _Features, y: Array, noise: Array, priors: Array) -> tuple[float, float]:
    """From the squared error of each trial's prediction from the others, against that of a prediction that knows the
    shared errors of each round, but no setting."""
    from scipy import stats

    chosen = priors[:: max(1, len(priors) // 20)]
    errors = [_left_out(features.table * features.scale(prior), y - y.mean(), noise) for prior in chosen]
    model = np.mean(errors, axis=0) ** 2
    usual = _left_out(FAR * np.ones((len(y), 1)), y - y.mean(), noise) ** 2
    test = stats.wilcoxon(usual, model, alternative="greater")
    return 1 - float(model.mean() / usual.mean()), float(test.pvalue)


def _left_out(table: Array, y: Array, noise: Array) -> Array:
    """The error of the prediction of each result from the others."""
    inverse = np.linalg.inv(noise + table @ table.T)
    return np.asarray(inverse @ y / np.diag(inverse), dtype=float)


def _share(draws: Array) -> VarianceShare:
    low, high = np.quantile(draws, [0.025, 0.975])
    return VarianceShare(*(min(1.0, float(each)) for each in (draws.mean(), low, high)))
