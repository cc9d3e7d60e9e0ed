"""The newest campaign of a schedule against its earlier ones."""

from __future__ import annotations

import numpy as np

from stats.across_campaigns.prediction import against_history
from tests.truth.campaigns import DELTA
from tests.truth.scenario import Limits, Scenario, Trial

RUN_SD = 0.01


def _campaign(rng: np.random.Generator, day_sd: float, runs: int, levels: int, true: float = 0.0) -> np.ndarray:
    """Values of shape (levels, runs): a day is the same for all levels."""
    return 1000 * np.exp(rng.normal(true, day_sd) + rng.normal(0, RUN_SD, (levels, runs)))


def _schedule(day_sd: float, earlier: int, levels: int = 1, true: float = 0.0, finds: float | None = None) -> Scenario:
    def trial(rng: np.random.Generator) -> Trial:
        past = [_campaign(rng, day_sd, 5, levels) for _ in range(earlier)]
        newest = _campaign(rng, day_sd, 5, levels, true)
        comparisons = [
            against_history([one[level] for one in past], newest[level], better="higher", delta=DELTA, of=levels)
            for level in range(levels)
        ]
        defined = [each for each in comparisons if each]
        claimed = any(each.interval[0] > 0 or each.interval[1] < 0 for each in defined)
        truth = 100 * np.expm1(true)
        covers = all(each.interval[0] <= truth <= each.interval[1] for each in defined)
        return Trial(None if true else claimed, covers, all(each.is_worse for each in defined) if true else None)

    name = f"schedule, day sd {100 * day_sd:g} %, {earlier} earlier campaigns, {levels} level{'s' * (levels > 1)}"
    return Scenario(f"{name}, a step of {100 * true:g} %" if true else name, trial, 4000, 60, Limits(finds=finds))


SCENARIOS = [
    _schedule(0.01, 5),
    _schedule(0.01, 10),
    _schedule(0.01, 30),
    _schedule(0.03, 10),
    _schedule(0.0, 10),
    _schedule(0.01, 10, levels=4),
    _schedule(0.01, 10, true=-0.05, finds=0.9),
    _schedule(0.01, 5, true=-0.08, finds=0.9),
]
