"""Many correlated figures of each level at once: how many differences are false."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stats import Observation, associations
from tests.truth.scenario import Scenario, Trial

FIGURES, FACTORS = 60, 6
# A figure that shifts by so many standard deviations of one run.
SHIFT = 4.0


def _trial(levels: int, runs: int, *, shifted: int = 0, tails: bool = False) -> Callable[[np.random.Generator], Trial]:
    """A trial of 60 figures, each of them of six that all share and of its own, half each; the last level shifts the
    first `shifted` of them."""

    def trial(rng: np.random.Generator) -> Trial:
        draw = (
            (lambda *size: rng.standard_t(3, size) / np.sqrt(3)) if tails else lambda *size: rng.standard_normal(size)
        )
        loads = rng.standard_normal((FACTORS, FIGURES)) / np.sqrt(FACTORS)
        noise = np.sqrt(0.5) * (draw(runs, levels, FACTORS) @ loads + draw(runs, levels, FIGURES))
        noise += 3 * rng.standard_normal((runs, 1, FIGURES))  # of the block
        noise[:, levels - 1, :shifted] += SHIFT
        claimed = [one for one in associations(_rows(noise), "l0") if one.differs]
        real = [_is_shifted(one.figure, one.level, levels, shifted) for one in claimed]
        false_share = real.count(False) / max(1, len(real))
        if not shifted:
            return Trial(false=bool(claimed))
        return Trial(false=bool(rng.random() < false_share), finds=bool(rng.random() < real.count(True) / shifted))

    return trial


def _rows(noise: np.ndarray) -> dict[str, list[Observation]]:
    runs, levels, figures = noise.shape
    return {
        f"f{figure}": [
            Observation(f"l{level}", run, float(noise[run, level, figure]), run * levels + level)
            for run in range(runs)
            for level in range(levels)
        ]
        for figure in range(figures)
    }


def _is_shifted(figure: str, level: str, levels: int, shifted: int) -> bool:
    return int(figure[1:]) < shifted and level == f"l{levels - 1}"


SCENARIOS = [
    *(
        Scenario(f"60 figures, nothing differs, {k} levels, {n} runs", _trial(k, n))
        for k, n in ((2, 3), (2, 5), (2, 10), (4, 5))
    ),
    Scenario("60 figures, heavy tails, nothing differs, 2 levels, 5 runs", _trial(2, 5, tails=True)),
    *(
        Scenario(f"60 figures, {count} shift by 4 sd, 2 levels, {n} runs", _trial(2, n, shifted=count))
        for count, n in ((5, 5), (20, 5), (5, 10))
    ),
]
