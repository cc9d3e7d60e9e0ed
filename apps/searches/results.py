"""SELECT only: what the campaigns of a search measured, candidate by candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import F, Q

from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.models import Measurement
from apps.searches.models import Round, Search, Trial

FACTOR = "values"
DEFAULT = "default"
BLAMED = (Run.Outcome.FAILED, Run.Outcome.NOT_IN_EFFECT)  # of the others, the candidate is innocent


@dataclass
class Evidence:
    """Of one candidate: the log ratios of each round, and its runs that failed."""

    rounds: dict[int, list[float]] = field(default_factory=dict)
    failed: list[Run] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [ratio for each in self.rounds.values() for ratio in each]

    def is_of(self, number: int) -> bool:
        """Whether this round has any of it."""
        return number in self.rounds or any(run.round == number for run in self.failed)  # type: ignore[attr-defined]


def evidence(search: Search) -> dict[str, Evidence]:
    """Label of a candidate -> what its rounds measured. Two queries.

    A block counts if its default has a result: where the default fails, too, the candidate is not to blame."""
    chosen = steps.metric(search.campaign.steps, search.campaign.metric)
    runs = list(_runs(search))
    figures = Measurement.objects.filter(run__in=[run.pk for run in runs], step=chosen.step, name=chosen.name)
    values = {run: math.log(value) for run, value in figures.values_list("run_id", "value") if value > 0}
    sign = -1.0 if chosen.better == "lower" else 1.0
    found: dict[str, Evidence] = {}
    for block in _blocks(runs):
        base = block.get(DEFAULT)
        if base is None or base.pk not in values:
            continue
        for label, run in block.items():
            if label != DEFAULT:
                _add(found.setdefault(label, Evidence()), run, values, sign, values[base.pk])
    return found


def _runs(search: Search) -> Iterable[Run]:
    """Of all rounds but the confirmation, in their order; those that were retried are replaced by their retries."""
    rounds = Q(campaign__search_round__search=search, campaign__search_round__kind=Round.Kind.SEARCH)
    ended = Run.objects.filter(rounds, state=Run.State.ENDED, retries=None)
    return (
        ended.annotate(round=F("campaign__search_round__number"))
        .order_by("round", "position")
        .only("campaign_id", "cell", "block", "host_id", "outcome", "error", "proof")
    )


def _blocks(runs: Iterable[Run]) -> list[dict[str, Run]]:
    """Label -> run, of each block on each host, in the order of the rounds."""
    found: dict[tuple[UUID, int, int], dict[str, Run]] = {}
    for run in runs:
        found.setdefault((run.campaign_id, run.host_id, run.block), {})[run.cell.get(FACTOR, "")] = run
    return list(found.values())


def _add(own: Evidence, run: Run, values: Mapping[UUID, float], sign: float, base: float) -> None:
    if run.outcome in BLAMED:
        own.failed.append(run)
    elif run.pk in values:
        number: int = run.round  # type: ignore[attr-defined]  # annotated
        own.rounds.setdefault(number, []).append(sign * (values[run.pk] - base))


def verdict_on(failed: Run) -> tuple[str, str]:
    """State of a candidate with such a run, and why."""
    error = failed.error or {}
    if error.get("setting") and error.get("wanted") is not None:
        words = f"{error['setting']} should be {error['wanted']}; the host has {error.get('found')}"
    else:
        words = str(error.get("message") or "a run failed")
    not_in_effect = failed.outcome == Run.Outcome.NOT_IN_EFFECT
    return Trial.State.NOT_IN_EFFECT if not_in_effect else Trial.State.FAILED, words
