"""When a warm-up may end: rates that rise, level off, wander or drift, second by second."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import Unplannable
from agents.measure import steady
from agents.run.planning import plan_steps
from stats.trends import within_run


def ended_at(rates: list[float], window_s: float = 5, share: float = 0.02) -> float | None:
    """The second at which the warm-up would end; None for never."""
    looking = steady.Steadiness(window_s, share)
    for second, rate in enumerate(rates, start=1):
        looking.add(float(second), rate)
        if looking.reached:
            return float(second)
    return None


def noisy(rates: list[float], share: float = 0.01) -> list[float]:
    drawn = random.Random(1)
    return [rate * (1 + drawn.gauss(0, share)) for rate in rates]


def test_a_constant_rate_is_steady_after_six_windows() -> None:
    assert ended_at([1000.0] * 60) == 30


def test_a_rate_that_levels_off_is_steady_once_its_rise_is_less_than_half() -> None:
    rising = [1000 * (0.2 + 0.8 * min(1, second / 30)) for second in range(120)]

    assert ended_at(noisy(rising)) == pytest.approx(70, abs=25)


@pytest.mark.parametrize(
    "rates",
    [
        [100.0 + 10 * second for second in range(200)],
        [1000.0 - 3 * second for second in range(200)],
        [1000.0] * 29,
        [0.0] * 20 + [1000.0 * 1.05**second for second in range(60)],
    ],
)
def test_a_rate_that_rises_falls_or_has_few_samples_is_not_steady(rates: list[float]) -> None:
    assert ended_at(rates) is None


def test_noise_does_not_hide_a_steady_rate() -> None:
    assert ended_at(noisy([1000.0] * 300, share=0.03)) is not None


def test_samples_that_are_late_or_missing_fall_into_their_own_windows() -> None:
    looking = steady.Steadiness(5, 0.02)
    for second in (1.0, 2.0, 3.0, 4.0, 5.01, 11.0, 12.0):
        looking.add(second, 100.0)

    assert looking.as_json(12.0)["windows"] == 1
    looking.add(16.0, 100.0)
    assert looking.as_json(16.0)["windows"] == 2


@given(st.lists(st.integers(1, 10_000), max_size=40))
def test_agent_and_server_cut_the_same_warm_up(means: list[int]) -> None:
    assert steady.mser_cut(means) == within_run.mser_cut(means)


def test_the_rule_is_that_of_the_published_example() -> None:
    means = [8200, 9100, 9600, 9900, 10010, 9980, 10030, 9990, 10020, 9970]
    means += [10000, 10015, 9985, 10005, 9995, 10010, 9990, 10020, 9980, 10000]

    assert steady.mser_cut(means) == 4
    assert abs(steady.relative_slope(means[4:])) < 0.002


def test_the_log_has_the_figures_of_both_outcomes() -> None:
    looking = steady.Steadiness(5, 0.02)
    for second in range(1, 31):
        looking.add(float(second), 1000.0)

    level, message = steady.sentence(looking.as_json(30.2), "tps")
    late, complaint = steady.sentence(looking.as_json(30.2) | {"reached": False}, "tps")

    assert (level, late) == ("info", "warning")
    assert message.startswith("steady after 30.2 s: 6 windows of 5 s, the first 0 left out")
    assert "the other 6: 1000 tps" in message and "+0.0%" in message
    assert complaint.startswith("not steady after 30.2 s")


@pytest.mark.parametrize(
    ("role", "kind", "options"), [("measure", "pgbench", {}), ("warm", "sql", {"query": "select 1"})]
)
def test_only_a_warm_step_of_a_tool_with_a_rate_can_end_early(role: str, kind: str, options: dict[str, str]) -> None:
    step = {"name": "a", "role": role, "kind": kind, "options": options, "until": {"window_s": 5, "within": 0.02}}

    with pytest.raises(Unplannable) as refused:
        plan_steps({"steps": [step], "target": {"kind": "private"}})

    assert refused.value.field == "steps.a.until"
