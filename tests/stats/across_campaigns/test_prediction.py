"""A newest campaign against the history of a schedule."""

from __future__ import annotations

import numpy as np
import pytest

from stats.across_campaigns.prediction import LEAST, against_history

RUNS = [[99.0, 101.0], [100.0, 102.0], [98.0, 100.0], [101.0, 103.0], [99.0, 100.0]]


def test_fewer_than_five_earlier_campaigns_give_no_verdict() -> None:
    assert against_history(RUNS[: LEAST - 1], [90.0, 91.0], better="higher", delta=0.02) is None
    assert against_history(RUNS, [90.0, 91.0], better="higher", delta=0.02) is not None


def test_the_interval_is_students_prediction_interval() -> None:
    means = [np.log(values).mean() for values in RUNS]
    half = 2.7764451 * np.std(means, ddof=1) * np.sqrt(1 + 1 / 5)  # t of 4 degrees of freedom

    comparison = against_history(RUNS, [100.0], better="higher", delta=0.02)

    assert comparison is not None
    difference = np.log(100) - np.mean(means)
    assert comparison.interval == pytest.approx((100 * np.expm1(difference - half), 100 * np.expm1(difference + half)))


@pytest.mark.parametrize(("better", "verdict"), [("higher", "worse"), ("lower", "better")])
def test_a_step_beyond_the_margin_has_a_direction(better: str, verdict: str) -> None:
    comparison = against_history(RUNS, [80.0, 81.0], better=better, delta=0.02)  # type: ignore[arg-type]

    assert comparison is not None
    assert comparison.verdict == verdict
    assert comparison.is_worse == (verdict == "worse")


def test_more_levels_widen_the_interval() -> None:
    one, three = (against_history(RUNS, [97.0], better="higher", delta=0.02, of=of) for of in (1, 3))

    assert one and three
    assert three.interval[0] < one.interval[0] < one.interval[1] < three.interval[1]
    assert one.sentence("4 CPUs", "tps").startswith("4 CPUs is ")
