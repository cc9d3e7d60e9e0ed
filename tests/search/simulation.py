"""A whole search on a surrogate, by the code that the server runs; and the plain library beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from apps.searches import optimiser, strategy
from apps.searches.optimiser import Tried
from apps.searches.space import Values
from apps.searches.strategy import Sizes
from stats.comparison.levels import against_baseline
from stats.model import Metric, Observation
from stats.stopping.racing import Standing, standing, unstable
from tests.search.surrogate import DEFAULT, SPACE, Surrogate

DRIFT = 0.05  # standard deviation of a block's own log: the machine of this hour
DELTA = 0.02
SIZES = Sizes(candidates=4, blocks=1, finalists=2, confirmation_blocks=5)
METRIC = Metric("tps", "TPS", "higher")


@dataclass
class Trial:
    values: Values
    rounds: list[list[float]] = field(default_factory=list)
    bad: bool = False
    unstable: bool = False


@dataclass(frozen=True)
class Outcome:
    """`gain`: the true log ratio of the candidate that was chosen; `unstable`: if its runs halve at times.
    `confirmed`: whether a fresh campaign called it better. `false_promising`: candidates called promising that are not
    better."""

    chosen: Values | None
    gain: float
    confirmed: bool
    unstable: bool
    promising: int = 0
    false_promising: int = 0
    trials: int = 0


def search(world: Surrogate, runs: int, seed: int, sampler: str) -> Outcome:
    rng = np.random.default_rng(seed)
    trials: list[Trial] = []
    left, number = runs, 0
    while step := strategy.next_round(SIZES, _standings(trials), left):
        number += 1
        told = [Tried(each.values, _mean(each), each.bad or each.unstable) for each in trials]
        new = optimiser.propose(SPACE, told, step.new, optimiser.seed_of(seed, number), sampler)
        trials += [Trial(values) for values in new]
        running = [trials[place] for place in step.again] + trials[len(trials) - len(new) :]
        left -= SIZES.round_runs(len(running))
        _measure(world, running, rng)
        _mark_unstable(trials)
    standings = _standings(trials)
    final = strategy.finalists(SIZES, standings)
    promising = [place for place, each in standings.items() if each.promising]
    wrong = sum(world.gain(trials[place].values) <= 0 for place in promising)
    about = {"promising": len(promising), "false_promising": wrong, "trials": len(trials)}
    if not final:
        return Outcome(None, 0.0, False, False, **about)
    better = _confirm(world, [trials[place].values for place in final], rng)
    chosen = trials[final[better if better is not None else 0]].values
    return Outcome(
        chosen,
        world.gain(chosen),
        better is not None,
        world.is_unstable(chosen),
        **about,
    )


def plain(world: Surrogate, runs: int, seed: int) -> Outcome:
    """TPE as its documentation shows it: one run a trial, the best value wins."""
    rng = np.random.default_rng(seed)
    told: list[Tried] = []
    for number in range(runs):
        [values] = optimiser.propose(SPACE, told, 1, optimiser.seed_of(seed, number), "tpe")
        found = world.run(values, DRIFT * float(rng.standard_normal()), rng)
        told.append(Tried(values, found, found is None))
    best = max((each for each in told if not each.bad), key=lambda each: each.log_ratio or -9.0)
    return Outcome(best.values, world.gain(best.values), True, world.is_unstable(best.values))


def _measure(world: Surrogate, running: list[Trial], rng: np.random.Generator) -> None:
    for each in running:
        each.rounds.append([])
    for _ in range(SIZES.blocks):
        block = DRIFT * float(rng.standard_normal())
        base = world.run(DEFAULT, block, rng) or 0.0
        for each in running:
            found = world.run(each.values, block, rng)
            each.bad |= found is None
            if found is not None:
                each.rounds[-1].append(found - base)


def _mark_unstable(trials: list[Trial]) -> None:
    found = unstable({str(place): _flat(each) for place, each in enumerate(trials) if not each.bad}, DELTA)
    for place, each in enumerate(trials):
        each.unstable = str(place) in found


def _flat(trial: Trial) -> list[float]:
    return [ratio for each in trial.rounds for ratio in each]


def _mean(trial: Trial) -> float | None:
    return float(np.mean(_flat(trial))) if _flat(trial) else None


def _standings(trials: list[Trial]) -> dict[int, Standing]:
    return {
        place: standing(each.rounds, SIZES.most_blocks)
        for place, each in enumerate(trials)
        if not each.bad and not each.unstable and _flat(each)
    }


def _confirm(world: Surrogate, finalists: list[Values], rng: np.random.Generator) -> int | None:
    """The place of the best finalist that the confirmation calls better; None where it calls none so."""
    rows: list[Observation] = []
    for number in range(SIZES.confirmation_blocks):
        block = DRIFT * float(rng.standard_normal())
        for level, values in [("default", DEFAULT), *((f"{i}", each) for i, each in enumerate(finalists))]:
            found = world.run(values, block, rng)
            rows += [] if found is None else [Observation(level, number, float(np.exp(found)), len(rows))]
    verdicts = against_baseline(rows, "default", METRIC, DELTA)
    better = [one for one in verdicts if one.verdict in ("better", "direction_better")]
    return int(max(better, key=lambda one: one.ratio_percent).b) if better else None
