"""Whether the importance of settings, from the trials of a simulated search, is the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.searches.space import Values
from stats.comparison.importance import importance
from tests.search.simulation import explore, mean_of
from tests.search.surrogate import Surrogate

SETTINGS = 6


@dataclass(frozen=True)
class Explained:
    """`is_resolved`: whether there is an answer. `is_top_right`: whether its most important setting is the true one.
    `covered`: how many of its intervals have the true share."""

    is_resolved: bool
    is_top_right: bool
    covered: int


def explain(noise: float, runs: int, seed: int, *, flat: bool = False) -> Explained:
    """One search with TPE on a surrogate without faults; with random candidates if it is flat."""
    server, rng = Surrogate(noise, faulty=False, flat=flat), np.random.default_rng(seed)
    dimensions = server.of.space.dimensions
    trials = explore(server, runs, seed, "random" if flat else "tpe", rng)
    values = [trial.values for trial in trials]
    results = [mean_of(trial) or 0.0 for trial in trials]
    rows = [[dimension.position(own[dimension.name]) for dimension in dimensions] for own in values]
    is_choice = [dimension.kind == "choice" for dimension in dimensions]
    answer = importance(rows, is_choice, results, [dict.fromkeys(trial.numbers, 1) for trial in trials], seed)
    true = np.array([_true(server, values, dimension.name) for dimension in dimensions]) / float(np.var(results))
    covered = sum(own.low <= share <= own.high for own, share in zip(answer.settings, true, strict=True))
    top = int(np.argmax([own.mean for own in answer.settings]))
    return Explained(answer.is_resolved, top == int(np.argmax(true)), covered)


def _true(server: Surrogate, values: list[Values], name: str) -> float:
    """Half the mean squared change of the true gain if a setting has the value of another trial."""
    changes = [
        server.gain(value) - server.gain(value | {name: other[name]}) for value in values for other in values[::3]
    ]
    return float(np.mean(np.square(changes))) / 2
