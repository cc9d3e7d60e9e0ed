"""Two modes: runs of each level that form two groups, such as runs with and without a noisy neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stats.comparison.tails import LEAST
from stats.model import NO_SPREAD, Floats, Observation, by_level, logs, ratio_percent

# The empty range between the groups, in standard deviations of one group. Of campaigns with one mode, at most 2 %
# have such a gap (normal runs or t with 3 degrees of freedom, from 16 runs on).
LEAST_GAP = 2.5
LEAST_RUNS, LEAST_SHARE = 3, 0.1  # of the smaller group


@dataclass(frozen=True)
class Modes:
    """`lower`: for each observation, whether it is of the lower mode. `percent`: the lower mode's mean less that of
    the upper one."""

    lower: tuple[bool, ...]
    percent: float

    def as_dict(self) -> dict[str, float]:
        """The size of the difference, and the numbers of runs."""
        count = sum(self.lower)
        return {"percent": self.percent, "lower": count, "upper": len(self.lower) - count}


def two_modes(rows: Sequence[Observation]) -> Modes | None:
    """The modes of these runs, of all levels together; None if there is one, or a level has too few runs.

    Levels are aligned by their shifts (Hodges-Lehmann), which modes move little."""
    levels = by_level(rows)
    if min((len(own) for own in levels.values()), default=0) < LEAST:
        return None
    arms = {name: logs([row.value for row in own]) for name, own in levels.items()}
    first = next(iter(arms.values()))
    shifts = {name: float(np.median(np.subtract.outer(arm, first))) for name, arm in arms.items()}
    aligned = logs([row.value for row in rows]) - np.array([shifts[row.level] for row in rows])
    split = _largest_gap(aligned)
    if split is None:
        return None
    lower = aligned < split
    return Modes(tuple(lower.tolist()), ratio_percent(float(aligned[lower].mean() - aligned[~lower].mean())))


def _largest_gap(values: Floats) -> float | None:
    """The middle of the largest gap that leaves enough values on both sides, if it separates two modes."""
    values = np.sort(values)
    least = max(LEAST_RUNS, int(np.ceil(LEAST_SHARE * len(values))))
    gaps = np.diff(values)[least - 1 : len(values) - least]
    place = least + int(np.argmax(gaps))
    below, above = values[:place], values[place:]
    left = ((below - below.mean()) ** 2).sum() + ((above - above.mean()) ** 2).sum()
    within = float(np.sqrt(left / (len(values) - 2)))
    gap = float(above[0] - below[-1])
    return float(below[-1] + above[0]) / 2 if gap > max(NO_SPREAD, LEAST_GAP * within) else None
