"""The steps of a search: record what a round measured, plan the next round, and start its campaign.

Each step is one transaction that holds the row of the search. So two workers never do the same step, and a worker that
dies leaves nothing half done. A step creates the campaign as a draft and starts it afterwards, because a start connects
to hosts: a claim that expires keeps other workers from it. No function reads the clock: `now` is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import User
from apps.accounts.services import audit
from apps.campaigns import lifecycle
from apps.campaigns.design import plan
from apps.campaigns.design.request import Arrangement, Ending
from apps.campaigns.models import Campaign, Run
from apps.searches import budget, constraints, optimiser, results, space, strategy
from apps.searches.constraints import Constraint
from apps.searches.models import Round, Search, Trial
from apps.searches.space import Space
from common.errors import ProvingError, RoleError
from stats.stopping.racing import CandidateStanding, standing, unstable

OPEN = (Campaign.State.DRAFT, Campaign.State.RUNNING, Campaign.State.PAUSED)
NOTHING_BETTER = "no candidate was better than the default"
NOTHING_BETTER_BY_ANY = "no candidate was better than the default by either metric"
NOTHING_BETTER_WITHIN = "no candidate that meets the constraints was better than the default"
VARIES = "its results vary more from block to block than those of the other candidates"


def due() -> list[UUID]:
    """Running searches with a step to do: no campaign of theirs is open, and all results of the last one are read."""
    unread = Run.objects.filter(campaign=OuterRef("campaign"), outcome=Run.Outcome.OK, ingested_at=None)
    going_on = Q(campaign__state__in=OPEN) | Q(campaign__ended_at=None) | Exists(unread)
    waits = Round.objects.filter(going_on, search=OuterRef("pk"), state=Round.State.RUNNING)
    running = Search.objects.filter(state=Search.State.RUNNING)
    return list(running.exclude(Exists(waits)).order_by("created_at").values_list("pk", flat=True))


def advance(key: UUID, now: datetime) -> None:
    """Do the due step of a search, and start the campaign of its new round."""
    settle(key, now)
    for search_round in Round.objects.filter(
        search=key, search__state=Search.State.RUNNING, state=Round.State.STARTING
    ):
        start(search_round, now)


@transaction.atomic
def settle(key: UUID, now: datetime) -> None:
    """Record what the last round measured, and plan the next one. Does nothing while another worker does it."""
    open_ = Search.objects.filter(pk=key, state=Search.State.RUNNING)
    rows = open_.select_for_update(skip_locked=True, of=("self",))
    search = rows.select_related("campaign__host", "campaign__workload", "owner").first()
    if search is None:
        return
    last = search.rounds.select_related("campaign").order_by("-number").first()
    if last and last.state != Round.State.DONE:
        if last.state == Round.State.STARTING or not _is_read(last.campaign):
            return
        _record(search, last, now)
    if search.state == Search.State.RUNNING:
        _plan(search, now)


def _is_read(campaign: Campaign) -> bool:
    unread = campaign.runs.filter(outcome=Run.Outcome.OK, ingested_at=None)
    return campaign.state not in OPEN and campaign.ended_at is not None and not unread.exists()


def _record(search: Search, last: Round, now: datetime) -> None:
    """Close an ended round and update the trials. The search pauses if the round was cancelled or has no result."""
    last.state = Round.State.DONE
    last.save(update_fields=["state"])
    if last.kind == Round.Kind.CONFIRMATION:
        cancelled = last.campaign.state == Campaign.State.CANCELLED
        end(search, Search.State.FINISHED, "the confirmation was cancelled" if cancelled else "", now)
        return
    evidence = results.evidence(search)
    _judge(search, evidence)
    if last.campaign.state == Campaign.State.CANCELLED:
        pause(search, f"{last.campaign} was cancelled")
    elif not any(each.is_of(last.number) for each in evidence.values()):
        pause(search, f"no block of {last.campaign} has a result of the default and of a candidate")


def _judge(search: Search, evidence: dict[str, results.Evidence]) -> None:
    """Set state and figures of every trial that has evidence. The same evidence gives the same state."""
    completed = {label: each.ratios for label, each in evidence.items() if not each.failed}
    varying, size = unstable(completed, search.campaign.delta), budget.sizes(search)
    if search.second_metric:
        second = {label: each.second_ratios for label, each in evidence.items() if not each.failed}
        varying |= unstable(second, search.campaign.delta)
    limits = results.constraints_of(search)
    trials = [each for each in search.trials.all() if each.label in evidence]
    for trial in trials:
        own = evidence[trial.label]
        if own.ratios:
            at = _standing(own.rounds, size)
            trial.blocks, trial.log_ratio, trial.low, trial.high = at.blocks, at.mean, at.low, at.high
        if own.second:
            at = _standing(own.second, size)
            trial.second_log_ratio, trial.second_low, trial.second_high = at.mean, at.low, at.high
        checks = constraints.measured_constraints(limits, own.figures) if own.ratios else []
        trial.checks = [check.as_dict for check in checks]
        trial.state, trial.reason = Trial.State.MEASURED, ""
        broken = "; ".join(check.reason for check in checks if not check.is_met)
        if own.failed:
            trial.state, trial.reason = results.failure(own.failed[-1])
        elif broken:
            trial.state, trial.reason = Trial.State.BREAKS_LIMIT, broken
        elif trial.label in varying:
            trial.state, trial.reason = Trial.State.UNSTABLE, VARIES
    figures = ("log_ratio", "low", "high", "second_log_ratio", "second_low", "second_high")
    Trial.objects.bulk_update(trials, ["state", "reason", "checks", "blocks", *figures])


def _standing(ratios: Mapping[int, list[float]], size: strategy.Sizes) -> CandidateStanding:
    return standing([ratios[number] for number in sorted(ratios)], size.most_blocks)


def _plan(search: Search, now: datetime) -> None:
    """Create the next round or the confirmation, or end the search."""
    trials = {trial.number: trial for trial in search.trials.all()}
    evidence, size = results.evidence(search), budget.sizes(search)
    varied = space.read(search.space)
    eligible = {number: each for number, each in trials.items() if varied.has(each.values, search.fixed)}
    measured = [number for number, each in eligible.items() if each.state == Trial.State.MEASURED]
    standings = {number: _standing(evidence[trials[number].label].rounds, size) for number in measured}
    front = results.front(search, evidence, measured)
    waiting = [number for number, each in eligible.items() if each.state == Trial.State.ASKED]
    step = strategy.next_round(size, standings, budget.of(search).left_runs, waiting, front)
    if step is not None:
        candidates = [trials[number] for number in step.earlier] + _propose(search, list(trials.values()), step.new)
        if candidates:
            _create(search, candidates, Round.Kind.SEARCH)
            return
    picked = [number for number in search.picked if number in measured]
    final = [trials[number] for number in picked or strategy.finalists(size, standings, front)]
    if final:
        _create(search, final, Round.Kind.CONFIRMATION)
    else:
        nothing = NOTHING_BETTER_BY_ANY if front else NOTHING_BETTER
        end(search, Search.State.FINISHED, NOTHING_BETTER_WITHIN if search.constraints else nothing, now)


def _propose(search: Search, trials: list[Trial], count: int) -> list[Trial]:
    """At most `count` new trials, saved."""
    if not count:
        return []
    tried = [_tried(trial, results.constraints_of(search)) for trial in trials]
    earlier = [
        optimiser.Tried(each["values"], each["log_ratio"], each["is_bad"], second=each.get("second_log_ratio"))
        for each in search.earlier
    ]
    seed, metrics = optimiser.derived_seed(search.seed, len(trials)), len(results.objectives(search))
    proposals = optimiser.propose(
        space.read(search.space), tried, count, seed, fixed=search.fixed, earlier=earlier, metrics=metrics
    )
    return Trial.objects.bulk_create(
        Trial(search=search, number=number, values=values) for number, values in enumerate(proposals, len(trials) + 1)
    )


def _tried(trial: Trial, limits: list[Constraint]) -> optimiser.Tried:
    """A trial that breaks constraints keeps its result, and the optimiser learns how far it is beyond each limit."""
    if trial.state != Trial.State.BREAKS_LIMIT:
        return optimiser.Tried(trial.values, trial.log_ratio, trial.is_bad, second=trial.second_log_ratio)
    values = {check["constraint"]: check["value"] for check in trial.checks}
    measured = [limit for limit in limits if values.get(limit.line) is not None]
    excess = {limit.line: limit.excess(values[limit.line]) for limit in measured}
    missing = len(measured) < len(limits)
    return optimiser.Tried(trial.values, trial.log_ratio, missing, excess, trial.second_log_ratio)


def _create(search: Search, trials: list[Trial], kind: str) -> None:
    """Create a round and its draft, without the trials whose values the planner refuses. The search pauses if none can
    be planned."""
    try:
        _create_round(search, trials, kind)
    except RoleError as error:
        pause(search, error.reason)
    except ProvingError as error:
        accepted = _without_refused(search, trials, kind)
        if accepted and len(accepted) < len(trials):
            _create_round(search, accepted, kind)
        else:
            pause(search, f"no candidate can be planned: {error.reason}")


@transaction.atomic
def _create_round(search: Search, trials: list[Trial], kind: str) -> None:
    campaign = _clone(search, trials, kind)
    Round.objects.create(search=search, number=_next_number(search), kind=kind, campaign=campaign)


def _without_refused(search: Search, trials: list[Trial], kind: str) -> list[Trial]:
    """The trials that can be planned on their own; the others become refused. If not even the default can be planned,
    no values are to blame: no trial changes."""
    if _refusal(search, [], kind):
        return []
    for trial in trials:
        if reason := _refusal(search, [trial], kind):
            trial.state, trial.reason = Trial.State.REFUSED, reason
            trial.save(update_fields=["state", "reason"])
    return [each for each in trials if each.state != Trial.State.REFUSED]


def _refusal(search: Search, trials: list[Trial], kind: str) -> str:
    """Why a campaign of the default and these trials cannot be planned; "" if it can. Saves nothing."""
    try:
        with transaction.atomic():
            _clone(search, trials, kind)
            transaction.set_rollback(True)
    except ProvingError as error:
        return error.reason
    return ""


def _next_number(search: Search) -> int:
    return search.rounds.count() + 1


def _clone(search: Search, trials: list[Trial], kind: str) -> Campaign:
    """A draft with the default as the baseline, and the trials, in randomised blocks."""
    lifecycle.require_owner(search.owner, search.campaign, "search")
    varied, default, number = space.read(search.space), default_level(search.campaign), _next_number(search)
    ordered = sorted(trials, key=lambda each: each.number)
    levels = [{"label": trial.label, "set": {**default, **varied.level(trial.values)}} for trial in ordered]
    confirms = kind == Round.Kind.CONFIRMATION
    changes: dict[str, Any] = {
        "name": f"{search.name}: {'confirmation' if confirms else f'round {number}'}",
        "question": _question(search, varied, ordered, confirms),
        "factors": [{"name": results.FACTOR, "levels": [{"label": results.DEFAULT, "set": default}, *levels]}],
        "repetitions": search.confirmation_blocks if confirms else search.blocks,
        "seed": optimiser.derived_seed(search.seed, -number),
        "order": Campaign.Order.RANDOMISED,
        **dict.fromkeys(("design", "cells", "sample", *Ending.names())),
    }
    return lifecycle.clone_campaign(search.campaign, by=search.owner, **changes)


def _question(search: Search, varied: Space, trials: list[Trial], confirms: bool) -> str:
    """Names the candidates, the constraints, and the settings that risk data: every page and report of a campaign shows
    its question."""
    names = "; ".join(f"{trial.label}: {varied.text(trial.values)}" for trial in trials)
    question = "Are the best candidates better than the default?" if confirms else "Which candidates deserve more runs?"
    risks = "; ".join(f"{name}: {risk}" for name, risk in varied.risks.items())
    warning = f" Some settings risk data ({risks})." if risks else ""
    limits = f" Constraints: {', '.join(search.constraints)}." if search.constraints else ""
    both = f" Judge them by {search.campaign.metric} and by {search.second_metric}." if search.second_metric else ""
    return f"{question}{both}{warning}{limits} {names}"


def default_level(campaign: Campaign) -> dict[str, Any]:
    """The paths and values that the campaign's first combination sets."""
    baseline = plan.cells_of(Arrangement.of(campaign))[0]
    return {path: value for level in baseline.values() for path, value in level.set.items()}


def start(each: Round, now: datetime) -> None:
    """Start the campaign of a round, unless another worker has claimed it."""
    starting = Round.objects.filter(pk=each.pk, state=Round.State.STARTING)
    if not lifecycle.claim_start(starting, now):
        return
    search = Search.objects.select_related("campaign__host", "owner").get(pk=each.search_id)
    campaign = Campaign.objects.select_related("host", "workload", "dataset", "profile").get(search_round=each)
    if campaign.state == Campaign.State.DRAFT:
        error = lifecycle.start_clone(campaign, of=search.campaign, owner=search.owner, kind="search")
        if error:
            _refuse(search, each, campaign, error)
            return
    starting.update(state=Round.State.RUNNING, claimed_until=None)


@transaction.atomic
def _refuse(search: Search, each: Round, campaign: Campaign, error: ProvingError) -> None:
    """Pause the search. Its draft waits until the search is resumed."""
    if Round.objects.filter(pk=each.pk, state=Round.State.STARTING).update(claimed_until=None):
        locked = Search.objects.select_for_update().get(pk=search.pk)
        if locked.state == Search.State.RUNNING:
            pause(locked, f"{campaign} cannot start: {error.reason}")


def pause(search: Search, reason: str, *, by: User | None = None) -> None:
    """Plan nothing until a user resumes it; in the caller's transaction, which holds the row."""
    search.state, search.state_reason = Search.State.PAUSED, reason
    search.save(update_fields=["state", "state_reason"])
    audit(by, "search.pause", search, after={"id": str(search.pk), "reason": reason})


def end(search: Search, state: str, reason: str, now: datetime, *, by: User | None = None) -> None:
    """Finish or stop it; in the caller's transaction, which holds the row."""
    search.state, search.state_reason, search.ended_at = state, reason, now
    search.save(update_fields=["state", "state_reason", "ended_at"])
    action = "search.stop" if state == Search.State.STOPPED else "search.end"
    audit(by, action, search, after={"id": str(search.pk), "state": state, "reason": reason})
