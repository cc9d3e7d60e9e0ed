"""Figures against a limit. The interval of the first case is that of scipy.stats.ttest_1samp on the logarithms."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from stats.comparison.limits import against_limit

P99_MS = [18.0, 19.0, 20.0, 18.5, 19.5]


def test_the_interval_is_the_t_interval_of_the_logarithms() -> None:
    result = against_limit(P99_MS, 30.0, at_most=True)

    expected = stats.ttest_1samp([math.log(each) for each in P99_MS], 0.0).confidence_interval(0.95)
    assert result.mean == pytest.approx(stats.gmean(P99_MS))
    assert (result.low, result.high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


@pytest.mark.parametrize(
    ("limit", "at_most", "verdict"),
    [
        (20.5, True, "met"),
        (19.5, True, "uncertain"),
        (18.9, True, "broken"),
        (17.5, False, "met"),
        (18.5, False, "uncertain"),
        (19.1, False, "broken"),
    ],
)
def test_a_limit_is_met_only_if_the_whole_interval_keeps_to_it(limit: float, at_most: bool, verdict: str) -> None:
    assert against_limit(P99_MS, limit, at_most).verdict == verdict


def test_one_failed_transaction_in_one_run_breaks_a_limit_of_none() -> None:
    assert against_limit([0, 0, 0, 0, 0], 0, at_most=True).verdict == "met"
    assert against_limit([0, 0, 0, 1, 0], 0, at_most=True).verdict == "broken"


def test_two_runs_are_too_few_to_meet_a_limit() -> None:
    assert against_limit([10.0, 10.1], 20.0, at_most=True).verdict == "uncertain"
    assert against_limit([30.0, 30.1], 20.0, at_most=True).verdict == "broken"
