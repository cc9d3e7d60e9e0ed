"""Simulates a whole search on a surrogate with the code of the server, and the plain library for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from apps.searches import optimiser, strategy
from apps.searches.optimiser import Tried
from apps.searches.space import Values
from apps.searches.strategy import Sizes
from stats.comparison.levels import against_baseline
from stats.comparison.limits import MET, against_limit, mean
from stats.model import Metric, Observation
from stats.stopping.racing import CandidateStanding, standing, unstable
from tests.search.surrogate import LIMIT_MS, Surrogate

if TYPE_CHECKING:
    import optuna

DRIFT = 0.05  # standard deviation of the log of a block, which is common to its runs
DELTA = 0.02
SIZES = Sizes(candidates=4, blocks=1, finalists=2, confirmation_blocks=5)
METRIC = Metric("tps", "TPS", "higher")


@dataclass
class Trial:
    values: Values
    rounds: list[list[float]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of its rounds
    bad: bool = False
    unstable: bool = False
    p99_ms: list[float] = field(default_factory=list)

    @property
    def excess(self) -> float:
        """How far its p99 is above the limit; 0 or less if it meets the limit, and for a server without one."""
        return math.log(mean(self.p99_ms) / LIMIT_MS) if self.p99_ms else 0.0


@dataclass(frozen=True)
class Outcome:
    """`gain`: the true log ratio of the chosen candidate; `unstable`: whether some of its runs are halved. `confirmed`:
    whether the confirmation called it better and, on a limited server, within the limit. `breaks_limit`: whether its
    true p99 is above it. `false_promising`: number of promising candidates that are not better."""

    chosen: Values | None
    gain: float
    confirmed: bool
    unstable: bool
    breaks_limit: bool = False
    promising: int = 0
    false_promising: int = 0
    trials: int = 0


def search(server: Surrogate, runs: int, seed: int, sampler: str) -> Outcome:
    rng = np.random.default_rng(seed)
    trials = explore(server, runs, seed, sampler, rng)
    standings = _standings(trials)
    final = strategy.finalists(SIZES, standings)
    promising = [index for index, each in standings.items() if each.promising]
    wrong = sum(server.gain(trials[index].values) <= 0 for index in promising)
    counts = {"promising": len(promising), "false_promising": wrong, "trials": len(trials)}
    if not final:
        return Outcome(None, 0.0, False, False, **counts)
    better = _confirm(server, [trials[index].values for index in final], rng)
    chosen = trials[final[better if better is not None else 0]].values
    true = (server.is_unstable(chosen), server.breaks_limit(chosen))
    return Outcome(chosen, server.gain(chosen), better is not None, *true, **counts)


def explore(server: Surrogate, runs: int, seed: int, sampler: str, rng: np.random.Generator) -> list[Trial]:
    """The trials of all rounds before the confirmation."""
    trials: list[Trial] = []
    left, number = runs, 0
    while step := strategy.next_round(SIZES, _standings(trials), left):
        number += 1
        tried = [
            Tried(trial.values, mean_of(trial), trial.bad or trial.unstable, {"p99": trial.excess}) for trial in trials
        ]
        proposals = optimiser.propose(server.of.space, tried, step.new, optimiser.derived_seed(seed, number), sampler)
        new = [Trial(values) for values in proposals]
        running = [trials[index] for index in step.earlier] + new
        trials += new
        left -= SIZES.round_runs(len(running))
        _measure(server, running, number, rng)
        _mark_unstable(trials)
    return trials


def plain(server: Surrogate, runs: int, seed: int, sampler: str) -> Outcome:
    """Optuna as its documentation shows it: its TPE or random sampler as they are, one run per trial, and the best
    result wins."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rng = np.random.default_rng(seed)
    samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    study = optuna.create_study(direction="maximize", sampler=samplers[sampler](seed=seed))
    for _ in range(runs):
        trial = study.ask()
        result = server.run(_suggested(trial, server), DRIFT * float(rng.standard_normal()), rng)
        study.tell(trial, result, None if result is not None else optuna.trial.TrialState.FAIL)
    best = study.best_params
    return Outcome(best, server.gain(best), True, server.is_unstable(best))


def _suggested(trial: optuna.Trial, server: Surrogate) -> Values:
    return {
        each.name: trial.suggest_categorical(each.name, each.choices)
        if each.kind == "choice"
        else trial.suggest_float(each.name, each.low, each.high, log=each.log)
        for each in server.of.space.dimensions
    }


def _measure(server: Surrogate, running: list[Trial], number: int, rng: np.random.Generator) -> None:
    for each in running:
        each.rounds.append([])
        each.numbers.append(number)
    for _ in range(SIZES.blocks):
        block = DRIFT * float(rng.standard_normal())
        base = server.run(server.of.default, block, rng) or 0.0
        for each in running:
            result = server.run(each.values, block, rng)
            each.bad |= result is None
            if result is not None:
                each.rounds[-1].append(result - base)
                each.p99_ms += [server.p99_ms(each.values, rng)] if server.limited else []


def _mark_unstable(trials: list[Trial]) -> None:
    varying = unstable({str(index): _flat(each) for index, each in enumerate(trials) if not each.bad}, DELTA)
    for index, each in enumerate(trials):
        each.unstable = str(index) in varying


def _flat(trial: Trial) -> list[float]:
    return [ratio for search_round in trial.rounds for ratio in search_round]


def mean_of(trial: Trial) -> float | None:
    return float(np.mean(_flat(trial))) if _flat(trial) else None


def _standings(trials: list[Trial]) -> dict[int, CandidateStanding]:
    return {
        index: standing(each.rounds, SIZES.most_blocks)
        for index, each in enumerate(trials)
        if not each.bad and not each.unstable and each.excess <= 0 and _flat(each)
    }


def _confirm(server: Surrogate, finalists: list[Values], rng: np.random.Generator) -> int | None:
    """The index of the best finalist that the confirmation calls better and within the limit; None if there is none."""
    rows: list[Observation] = []
    p99_ms: dict[str, list[float]] = {f"{index}": [] for index in range(len(finalists))}
    for number in range(SIZES.confirmation_blocks):
        block = DRIFT * float(rng.standard_normal())
        for level, values in [("default", server.of.default), *((f"{i}", each) for i, each in enumerate(finalists))]:
            result = server.run(values, block, rng)
            if server.limited and level in p99_ms:
                p99_ms[level].append(server.p99_ms(values, rng))
            rows += [] if result is None else [Observation(level, number, float(np.exp(result)), len(rows))]
    verdicts = against_baseline(rows, "default", METRIC, DELTA)
    better = [verdict for verdict in verdicts if verdict.verdict in ("better", "direction_better")]
    better = [one for one in better if not p99_ms[one.b] or against_limit(p99_ms[one.b], LIMIT_MS, True).verdict == MET]
    return int(max(better, key=lambda one: one.ratio_percent).b) if better else None
