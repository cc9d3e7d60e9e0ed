"""Which values to try next. Pure: the same trials and seed, the same answer; nothing is kept between two calls.

Optuna proposes. Its study lives in memory for one call and is made of the trials given, so that PostgreSQL alone knows
how far a search is. Importing it takes two seconds: only the task that asks does.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.wire.protocol import canonical
from apps.searches.space import Dimension, Space, Values

if TYPE_CHECKING:
    import optuna

# Drawn at random before the model is asked. With 10, as Optuna has it, a small budget is spent before that.
FIRST_TRIALS = 5
SAMPLERS = ("tpe", "random", "qmc")
REPEATS = 200  # of values that were tried: a small space is then taken as exhausted
BAD = 0.5  # log ratio below the worst measured one, which a failed trial is told as


@dataclass(frozen=True)
class Tried:
    """`log_ratio` against the default, above 0 where it is better; None while it is measured. `bad`: failed, refused,
    not in effect, or beyond a constraint."""

    values: Values
    log_ratio: float | None = None
    bad: bool = False


def seed_of(seed: int, round_number: int) -> int:
    """A seed for each round of a search."""
    return int.from_bytes(hashlib.sha256(f"{seed} {round_number}".encode()).digest()[:4], "big")


def propose(space: Space, tried: Sequence[Tried], many: int, seed: int, sampler: str = "tpe") -> list[Values]:
    """As many new candidates as asked for, none of them tried before; fewer where the space has no others."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, seed))
        study.add_trials(_history(space, tried))
        return _ask(study, space, {_key(each.values) for each in tried}, many)


def _ask(study: optuna.Study, space: Space, known: set[bytes], many: int) -> list[Values]:
    found: list[Values] = []
    for _ in range(many + REPEATS):
        if len(found) == many:
            break
        values = space.rounded(_suggested(study.ask(), space))
        if _key(values) not in known:
            known.add(_key(values))
            found.append(values)
    return found


def _suggested(trial: optuna.Trial, space: Space) -> Values:
    values: Values = {}
    for each in space.dimensions:
        if not each.applies(values):
            continue
        if each.kind == "choice":
            values[each.name] = str(trial.suggest_categorical(each.name, each.choices))
        elif each.kind == "integer":
            values[each.name] = trial.suggest_int(each.name, round(each.low), round(each.high), log=each.log)
        else:
            values[each.name] = trial.suggest_float(each.name, each.low, each.high, log=each.log)
    return values


def _history(space: Space, tried: Sequence[Tried]) -> list[optuna.trial.FrozenTrial]:
    """All trials as Optuna has them: one that is measured now repels others, one that failed is as bad as it gets."""
    from optuna.trial import TrialState, create_trial

    measured = [each.log_ratio for each in tried if each.log_ratio is not None and not each.bad]
    worst = min([0.0, *measured]) - BAD
    found = []
    for each in tried:
        value = worst if each.bad else each.log_ratio
        state = TrialState.RUNNING if value is None else TrialState.COMPLETE
        own = {one.name: _distribution(one) for one in space.dimensions if one.name in each.values}
        found.append(create_trial(state=state, value=value, params=dict(each.values), distributions=own))
    return found


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
    return samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=FIRST_TRIALS)


def _key(values: Values) -> bytes:
    return canonical(values)
