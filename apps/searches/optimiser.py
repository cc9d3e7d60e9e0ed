"""Proposes the values to try next. Pure: the same trials and seed give the same values.

The sampler is Optuna's. Its study lives in memory for one call and is rebuilt from the trials, so the whole state of a
search is in PostgreSQL. Importing Optuna takes two seconds, so only the function that proposes imports it.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.wire.protocol import canonical
from apps.searches.space import Dimension, Space, Values

if TYPE_CHECKING:
    import optuna

# Values are random until this number of trials have a result. Optuna's default of 10 would use up a small budget.
RANDOM_TRIALS = 5
REPEATS = 200  # proposals of values that were tried before; after these, the space counts as exhausted
BAD = 0.5  # a bad trial counts as this much below the worst measured log ratio


@dataclass(frozen=True)
class Tried:
    """A trial. `log_ratio` to the default is above 0 if it is better, and None while it waits for results. `bad`:
    failed, refused, not in effect or unstable. `excess`: name of a constraint -> how far the trial is beyond its limit,
    above 0 if it is. Those that break none come first for the optimiser. `second`: log ratio of the second metric."""

    values: Values
    log_ratio: float | None = None
    bad: bool = False
    excess: Mapping[str, float] = field(default_factory=dict)
    second: float | None = None


def derived_seed(seed: int, number: int) -> int:
    """A seed of its own for each number, from the seed of a search."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4], "big")


def propose(
    space: Space,
    tried: Sequence[Tried],
    count: int,
    seed: int,
    sampler: str = "tpe",
    fixed: Values | None = None,
    earlier: Sequence[Tried] = (),
    metrics: int = 1,
) -> list[Values]:
    """`count` new candidates that were not tried before; fewer if the space has no others. All have the `fixed` values.
    `sampler`: tpe, random or qmc. It learns from `earlier` trials as well, but may propose their values again. With two
    `metrics`, it proposes values for the Pareto front."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(directions=["maximize"] * metrics, sampler=_sampler(sampler, seed))
        study.add_trials(_history(space, [*earlier, *tried], metrics))
        return _ask(study, space, {canonical(trial.values) for trial in tried}, count, fixed or {})


def _ask(study: optuna.Study, space: Space, known: set[bytes], count: int, fixed: Values) -> list[Values]:
    proposals: list[Values] = []
    for _ in range(count + REPEATS):
        if len(proposals) == count:
            break
        values = _suggested(study.ask(), space, fixed)
        key = canonical(values)
        if key not in known:
            known.add(key)
            proposals.append(values)
    return proposals


def _suggested(trial: optuna.Trial, space: Space, fixed: Values) -> Values:
    """Rounded values from the sampler, and the fixed values unchanged."""
    values: Values = {}
    for dimension in space.dimensions:
        if not dimension.applies(values):
            continue
        if dimension.name in fixed:
            values[dimension.name] = fixed[dimension.name]
        elif dimension.kind == "choice":
            values[dimension.name] = str(trial.suggest_categorical(dimension.name, dimension.choices))
        elif dimension.kind == "integer":
            number = trial.suggest_int(dimension.name, round(dimension.low), round(dimension.high), log=dimension.log)
            values[dimension.name] = dimension.rounded(number)
        else:
            values[dimension.name] = dimension.rounded(
                trial.suggest_float(dimension.name, dimension.low, dimension.high, log=dimension.log)
            )
    return values


def _history(space: Space, tried: Sequence[Tried], metrics: int) -> list[optuna.trial.FrozenTrial]:
    """All trials in Optuna's format. Waiting trials are running ones, which its sampler avoids; bad ones get the worst
    values."""
    from optuna.trial import TrialState, create_trial

    measured = [values for trial in tried if not trial.bad and (values := _figures(trial, metrics))]
    worst = [min(0.0, *own) - BAD for own in zip(*measured, strict=True)] or [-BAD] * metrics
    trials = []
    for trial in tried:
        values = worst if trial.bad else _figures(trial, metrics)
        state = TrialState.COMPLETE if values else TrialState.RUNNING
        own = {
            dimension.name: _distribution(dimension) for dimension in space.dimensions if dimension.name in trial.values
        }
        limits = None if trial.bad or not values else dict(trial.excess)
        trials.append(
            create_trial(state=state, values=values, params=dict(trial.values), distributions=own, constraints=limits)
        )
    return trials


def _figures(each: Tried, metrics: int) -> list[float] | None:
    """Its log ratio by each metric; None while it waits."""
    own = [each.log_ratio, each.second][:metrics]
    return [ratio for ratio in own if ratio is not None] if None not in own else None


def _distribution(each: Dimension) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if each.kind == "choice":
        return CategoricalDistribution(each.choices)
    if each.kind == "integer":
        return IntDistribution(round(each.low), round(each.high), log=each.log)
    return FloatDistribution(each.low, each.high, log=each.log)


def _sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    from optuna import samplers

    if name == "random":
        return samplers.RandomSampler(seed=seed)
    if name == "qmc":
        return samplers.QMCSampler(seed=seed, scramble=True, warn_asynchronous_seeding=False)
    return samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=RANDOM_TRIALS)
