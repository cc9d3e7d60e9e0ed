"""Which settings of a search matter: importance from its own trials, computed on request and cached."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

import msgspec
import orjson
from django.core.cache import cache

from apps.results.store.answer_cache import program
from apps.searches import results, space
from apps.searches.models import Search, Trial
from apps.searches.space import Space
from common.wording import counted
from stats.comparison.importance import importance, least_trials

HOUR_S = 3600
MOST_TRIALS = 120  # the newest; the time grows with the cube of their number


@dataclass(frozen=True)
class SettingImportance:
    """Share of the variance of the results that depends on a setting, in percent, with its 95 % credible interval."""

    name: str
    percent: float
    low: float
    high: float


@dataclass(frozen=True)
class Answer:
    """`reason`: why there is none yet, else "". `predicted`: percent of the variance that the settings predict for a
    trial from the others. `settings`: most important first."""

    trials: int
    reason: str
    predicted: float | None
    settings: list[SettingImportance]


def importance_of(search: Search) -> Answer:
    """At most four queries. Takes seconds unless it is cached."""
    varied = space.read(search.space)
    measured = search.trials.filter(
        state__in=(Trial.State.MEASURED, Trial.State.BREAKS_LIMIT), log_ratio__isnull=False
    ).order_by("-number")
    trials, needed = list(measured[:MOST_TRIALS])[::-1], least_trials(len(varied.dimensions))
    if len(trials) < needed:
        have = "1 has a result" if len(trials) == 1 else f"{len(trials)} have a result"
        reason = f"Not enough trials: {have}; {counted(len(varied.dimensions), 'setting')} need {needed}."
        return Answer(len(trials), reason, None, [])
    evidence = results.evidence(search)
    blocks = [{number: len(each) for number, each in evidence[trial.label].rounds.items()} for trial in trials]
    figures = [
        (trial.number, trial.values, trial.log_ratio, sorted(own.items()))
        for trial, own in zip(trials, blocks, strict=True)
    ]
    key = hashlib.sha256(program().encode() + orjson.dumps([str(search.pk), search.space, figures])).hexdigest()
    cached = cache.get(f"importance:{key}")
    if cached is None:
        cached = asdict(_computed(search, varied, trials, blocks))
        cache.set(f"importance:{key}", cached, HOUR_S)
    return msgspec.convert(cached, Answer)


def _computed(search: Search, varied: Space, trials: list[Trial], blocks: list[dict[int, int]]) -> Answer:
    dimensions = varied.dimensions
    rows = [
        [
            dimension.position(trial.values[dimension.name]) if dimension.name in trial.values else None
            for dimension in dimensions
        ]
        for trial in trials
    ]
    figures = [trial.log_ratio or 0.0 for trial in trials]
    result = importance(rows, [dimension.kind == "choice" for dimension in dimensions], figures, blocks, search.seed)
    if not result.is_resolved:
        reason = (
            f"Not resolved: in {len(trials)} trials, the settings do not predict results better than the mean does."
        )
        return Answer(len(trials), reason, None, [])
    shares = zip(dimensions, result.settings, strict=True)
    settings = [SettingImportance(one.name, 100 * own.mean, 100 * own.low, 100 * own.high) for one, own in shares]
    settings.sort(key=lambda each: -each.percent)
    return Answer(len(trials), "", 100 * result.skill, settings)
