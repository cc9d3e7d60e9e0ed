"""Two campaigns compared that ran on different days."""

from __future__ import annotations

import numpy as np

from stats import Cell, between_campaigns, compare_campaigns
from tests.truth.campaigns import DELTA, TPS, judged
from tests.truth.scenario import Limits, Scenario, Trial

SD = 0.01


def _runs(rng: np.random.Generator, day_sd: float, runs: int, true: float = 0.0) -> list[float]:
    return list(1000 * np.exp(rng.normal(true, day_sd) + rng.normal(0, SD, runs)))


def _days(day_sd: float, runs: int, history: int, true: float = 0.0, finds: float | None = None) -> Scenario:
    def trial(rng: np.random.Generator) -> Trial:
        cells = [Cell("spec", str(n), _runs(rng, day_sd, runs)) for n in range(history)]
        a, b = _runs(rng, day_sd, runs), _runs(rng, day_sd, runs, true)
        comparison = compare_campaigns(a, b, between_campaigns(cells), metric=TPS, delta=DELTA, names=("l0", "l1"))
        trial = judged([comparison], {"l1": true})
        # Without a history the interval is said to leave the days out: nothing is claimed.
        return trial if history else Trial(false=trial.false)

    known = f"{history} campaigns in the history" if history else "no history"
    name = f"two days, sd {100 * day_sd:g} %, {runs} runs, {known}"
    return Scenario(f"{name}, differs by {100 * true:g} %" if true else name, trial, 2000, 60, Limits(finds=finds))


SCENARIOS = [
    *(_days(0.01, runs, 0) for runs in (5, 10, 20)),
    *(_days(0.01, runs, 8) for runs in (5, 10, 20)),
    _days(0.01, 5, 4),
    _days(0.0, 5, 8),
    _days(0.01, 5, 20, 0.06, 0.75),
]
