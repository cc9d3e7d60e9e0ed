"""The overhead of a tracer, from runs with it and without it."""

from __future__ import annotations

import pytest

from common.errors import PlanError
from stats import Timed, overhead


def test_the_published_figures_give_the_published_overhead() -> None:
    """Single runs have no interval."""
    estimate = overhead([Timed(0, 3291.0, 94137)], [Timed(0, 3071.0)])

    assert estimate.ns == pytest.approx(2337, abs=0.1)
    assert estimate.interval is None
    assert estimate.sentence() == (
        "tracer overhead: (3,291 - 3,071 ms) / 94,137 events = 2,337 ns per event, from one run of each: "
        "an interval needs at least 3 runs of each."
    )


def test_runs_of_the_same_block_are_compared_with_each_other() -> None:
    """A drift that is common to both takes nothing from the answer."""
    traced = [Timed(block, 120.0 + 10 * block + wobble, 1000) for block, wobble in enumerate((-1, 0, 1, 0, 0))]
    untraced = [Timed(block, 100.0 + 10 * block) for block in range(5)]

    blocked, alone = overhead(traced, untraced), overhead(traced, [Timed(9, run.ms) for run in untraced])

    assert blocked.ns == alone.ns == pytest.approx(20_000)
    assert blocked.interval and alone.interval
    assert blocked.interval[0] > 19_000 and blocked.interval[1] < 21_000
    assert alone.interval[0] < 0
    assert alone.sentence().endswith("; the interval includes 0.")
    assert (blocked.method, alone.method) == ("paired t within blocks", "Welch's t")


def test_few_runs_are_preliminary() -> None:
    estimate = overhead([Timed(n, 120.0 + n, 10) for n in range(3)], [Timed(n, 100.0) for n in range(3)])

    assert estimate.sentence().startswith("preliminary: tracer overhead: (121 - 100 ms) / 10 events")


ONE = [Timed(0, 1.0)]


@pytest.mark.parametrize(("traced", "untraced"), [([], ONE), ([Timed(0, 1.0, 5)], []), (ONE, ONE)])
def test_without_runs_or_events_there_is_nothing_to_say(traced: list[Timed], untraced: list[Timed]) -> None:
    with pytest.raises(PlanError):
        overhead(traced, untraced)
