"""Autocorrelated samples within a run: warm-up and trend, present and absent."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stats import trend, warm_up
from stats.model import Floats
from tests.truth.campaigns import DELTA
from tests.truth.scenario import Limits, Scenario, Trial

SD, RATE = 0.03, 1000.0
AUTOCORRELATIONS = (0.0, 0.5, 0.7, 0.9)
SAMPLES = 300


def autocorrelated(rng: np.random.Generator, n: int, phi: float) -> Floats:
    """Standard normal values, each resembling the one before it by `phi`."""
    from scipy import signal

    innovations = math.sqrt(1 - phi**2) * rng.standard_normal(n)
    innovations[0] = rng.standard_normal()
    values: Floats = signal.lfilter([1.0], [1.0, -phi], innovations)
    return values


def _trend(n: int, phi: float, change: float = 0.0) -> Callable[[np.random.Generator], Trial]:
    """A trial: the rate changes evenly by `change` over the run. Denying a change of the margin is false, too."""

    def trial(rng: np.random.Generator) -> Trial:
        rate = RATE * (1 + SD * autocorrelated(rng, n, phi) + change * np.linspace(-0.5, 0.5, n))
        estimate = trend(rate, DELTA)
        if estimate is None:
            return Trial(false=False, covers=False)
        return Trial(
            false=estimate.negligible if change else estimate.flagged,
            covers=estimate.low_percent <= 100 * change <= estimate.high_percent,
            finds=estimate.flagged if change else None,
        )

    return trial


def _warm_up(n: int, phi: float, depth: float = 0.0) -> Callable[[np.random.Generator], Trial]:
    """A trial: the rate begins lower by `depth` and recovers with a time constant of 10 samples."""

    def trial(rng: np.random.Generator) -> Trial:
        rate = RATE * (1 + SD * autocorrelated(rng, n, phi) - depth * np.exp(-np.arange(n) / 10))
        steadiness = warm_up(rate)
        claims = steadiness.detected > 0 or not steadiness.steady
        return Trial(finds=claims) if depth else Trial(false=claims)

    return trial


SCENARIOS = [
    *(
        Scenario(f"trend, none, {SAMPLES} samples, autocorrelation {phi:g}", _trend(SAMPLES, phi))
        for phi in AUTOCORRELATIONS
    ),
    *(Scenario(f"trend, none, 60 samples, autocorrelation {phi:g}", _trend(60, phi)) for phi in (0.0, 0.9)),
    *(
        Scenario(
            f"trend of 5 %, {SAMPLES} samples, autocorrelation {phi:g}",
            _trend(SAMPLES, phi, 0.05),
            limits=Limits(finds=least),
        )
        for phi, least in zip(AUTOCORRELATIONS, (0.99, 0.95, 0.75, 0.15), strict=True)
    ),
    *(Scenario(f"warm-up, none, 120 samples, autocorrelation {phi:g}", _warm_up(120, phi)) for phi in AUTOCORRELATIONS),
    *(Scenario(f"warm-up, none, 60 samples, autocorrelation {phi:g}", _warm_up(60, phi)) for phi in (0.0, 0.9)),
    *(
        Scenario(
            f"warm-up from -30 %, 120 samples, autocorrelation {phi:g}",
            _warm_up(120, phi, 0.3),
            limits=Limits(finds=0.85),
        )
        for phi in (0.0, 0.9)
    ),
]
