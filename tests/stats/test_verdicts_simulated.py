"""Simulated campaigns: the shares of false positives and of detected differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats import Comparison, Metric, Observation, against_baseline, mde_percent, runs_needed
from stats.comparison.family import critical

TPS = Metric("tps", "tps", "higher")
DELTA, S, RUNS = 0.02, 0.01, 5
FOUND = ("better", "worse", "direction_better", "direction_worse")

pytestmark = pytest.mark.slow


def campaign(rng: np.random.Generator, levels: int, runs: int, effect: float, blocked: bool) -> list[Observation]:
    """One run of each level in each block; blocks differ by 3 %, the last level by `effect` (a difference of logs)."""
    of_block = rng.normal(0, 0.03, runs) if blocked else np.zeros(runs)
    rows = []
    for level in range(levels):
        logs = of_block + rng.normal(0, S, runs) + (effect if level == levels - 1 else 0)
        blocks = range(runs) if blocked else range(level * runs, (level + 1) * runs)
        rows += [Observation(f"l{level}", block, math.exp(y), 0) for block, y in zip(blocks, logs, strict=True)]
    return rows


def judged(levels: int, effect: float, blocked: bool, many: int, seed: int, runs: int = RUNS) -> list[list[Comparison]]:
    rng = np.random.default_rng(seed)
    rows = (campaign(rng, levels, runs, effect, blocked) for _ in range(many))
    return [against_baseline(each, "l0", TPS, DELTA) for each in rows]


def share(flags: list[bool]) -> float:
    return sum(flags) / len(flags)


DESIGNS = [(2, True), (2, False), (4, True)]
"""Levels, and whether they share blocks. Four that do not take a second for each campaign."""


@pytest.mark.parametrize(("levels", "blocked"), DESIGNS)
def test_at_most_5_percent_of_campaigns_of_equal_levels_show_a_difference(levels: int, blocked: bool) -> None:
    many = 10_000 if levels == 2 else 4_000

    comparisons = judged(levels, 0.0, blocked, many, seed=levels)

    false = share([any(one.verdict in FOUND for one in each) for each in comparisons])
    beyond = share([any(one.verdict in ("better", "worse") for one in each) for each in comparisons])
    print("A/A", levels, blocked, many, f"{false:.4f} beyond {beyond:.4f}")  # noqa: T201 - for docs/background/statistics.md
    assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / many)


def predicted_effect(levels: int, blocked: bool) -> float:
    """The minimum detectable effect (80 % power) from the true variation."""
    if levels == 2:
        s = S * math.sqrt(2) if blocked else S
        return math.log1p(mde_percent(s, RUNS, RUNS, paired=blocked) / 100)
    df = (levels - 1) * (RUNS - 1)
    from scipy import stats

    alpha = 2 * float(stats.t.sf(critical((math.sqrt(0.5),) * (levels - 1), df, 0.95), df))
    return math.log1p(mde_percent(S, RUNS, RUNS, alpha=alpha, df=df) / 100)


@pytest.mark.parametrize(("levels", "blocked"), DESIGNS)
def test_power_is_as_predicted(levels: int, blocked: bool) -> None:
    many = 4_000
    effect = predicted_effect(levels, blocked)

    comparisons = judged(levels, effect, blocked, many, seed=10 + levels)

    power = share([(each[-1].interval or (0.0,))[0] > 0 for each in comparisons])
    print("power", levels, blocked, many, f"effect {100 * math.expm1(effect):.2f} % found {power:.4f}")  # noqa: T201
    assert power == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("blocked", [True, False])
def test_the_runs_needed_detect_the_margin(blocked: bool) -> None:
    s = 0.02
    need = runs_needed(s * math.sqrt(2) if blocked else s, DELTA, paired=blocked)
    rng, detected = np.random.default_rng(5), []
    for _ in range(4_000):
        rows = campaign(rng, 2, need, 0.0, blocked)
        noisy = [
            Observation(r.level, r.block, r.value * math.exp(rng.normal(0, math.sqrt(s**2 - S**2))), 0) for r in rows
        ]
        moved = [Observation(r.level, r.block, r.value * (1.02 if r.level == "l1" else 1.0), 0) for r in noisy]
        detected.append((against_baseline(moved, "l0", TPS, DELTA)[0].interval or (0.0,))[0] > 0)

    print("needed", blocked, need, f"{share(detected):.4f}")  # noqa: T201
    assert share(detected) == pytest.approx(0.8, abs=0.05)
