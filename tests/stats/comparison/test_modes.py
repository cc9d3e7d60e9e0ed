"""Two modes are found where runs form two groups, hardly ever where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats import Observation, two_modes


def rows_of(*levels: np.ndarray) -> list[Observation]:
    return [
        Observation(f"l{number}", place, 1000 * math.exp(y), place)
        for number, logs in enumerate(levels)
        for place, y in enumerate(logs)
    ]


def test_slow_runs_of_levels_that_differ_are_one_mode() -> None:
    rng = np.random.default_rng(1)
    slow = np.array([True, False, False, False, False, True, False, False, False, False])
    levels = [shift + rng.normal(0, 0.01, 10) - 0.1 * slow for shift in (0.0, 0.05)]

    modes = two_modes(rows_of(*levels))

    assert modes and modes.lower == (*slow, *slow)
    assert modes.percent == pytest.approx(100 * math.expm1(-0.1), abs=1.0)
    assert (modes.as_dict()["lower"], modes.as_dict()["upper"]) == (4, 16)


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [8, 10, 20])
@pytest.mark.parametrize("df", [3, np.inf])
def test_runs_with_one_mode_rarely_seem_to_have_two(runs: int, df: float) -> None:
    rng = np.random.default_rng(runs)
    noise = (lambda: rng.normal(0, 0.01, runs)) if np.isinf(df) else lambda: 0.01 * rng.standard_t(df, runs)

    assert np.mean([two_modes(rows_of(noise(), noise())) is not None for _ in range(1000)]) <= 0.02


def test_two_modes_need_eight_runs_of_each_level_and_three_of_the_smaller_mode() -> None:
    modes = np.array([0.0, 0.001, 0.002, 0.003, 0.004, 0.1, 0.101])

    assert two_modes(rows_of(modes, modes)) is None
    assert two_modes(rows_of(np.append(modes, 0.005), np.append(modes, 0.005))) is not None
    assert two_modes(rows_of(np.append(modes, 0.005))) is None


def test_equal_values_have_one_mode() -> None:
    assert two_modes(rows_of(np.zeros(10), np.zeros(10))) is None
