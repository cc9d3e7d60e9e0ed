"""How a search goes on: it tells the optimiser what an ended round measured, and plans and starts the next one.

Each step is one transaction that holds the search's row, so two workers never do it twice, and one that dies leaves
nothing half done. A round's campaign is created there as a draft and started afterwards, because hosts are asked then:
the start has a claim that expires. Nobody reads the clock here: `now` is given.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import Role
from apps.accounts.services import audit, require
from apps.campaigns import lifecycle
from apps.campaigns import services as campaigns
from apps.campaigns.design import plan
from apps.campaigns.execution import queue
from apps.campaigns.models import Campaign, Run
from apps.searches import optimiser, results, space, strategy
from apps.searches.models import Round, Search, Trial
from apps.searches.space import Space
from common.errors import PlanError, ProvingError, RoleError
from stats.stopping.racing import Standing, standing, unstable

CLAIM = timedelta(minutes=2)  # longer than a start may take
OPEN = (Campaign.State.DRAFT, Campaign.State.RUNNING, Campaign.State.PAUSED)
NOTHING_BETTER = "no candidate was better than the default"
VARIES = "its results vary more from block to block than those of the other candidates"


def due() -> list[UUID]:
    """Searches under way that wait for nobody: no campaign of theirs goes on, and no run of it waits to be read."""
    unread = Run.objects.filter(campaign=OuterRef("campaign"), outcome=Run.Outcome.OK, ingested_at=None)
    going_on = Q(campaign__state__in=OPEN) | Q(campaign__ended_at=None) | Exists(unread)
    waits = Round.objects.filter(going_on, search=OuterRef("pk"), state=Round.State.RUNNING)
    running = Search.objects.filter(state=Search.State.RUNNING)
    return list(running.exclude(Exists(waits)).order_by("created_at").values_list("pk", flat=True))


def advance(key: UUID, now: datetime) -> None:
    """Do what is due for a search, and start the campaign that waits for it."""
    settle(key, now)
    for each in Round.objects.filter(search=key, search__state=Search.State.RUNNING, state=Round.State.STARTING):
        start(each, now)


@transaction.atomic
def settle(key: UUID, now: datetime) -> None:
    """Record what the last round measured, and plan the next. Nothing where another worker does it."""
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
    """What an ended round says of the trials. A cancelled one pauses the search: somebody had a reason."""
    last.state = Round.State.DONE
    last.save(update_fields=["state"])
    if last.kind == Round.Kind.CONFIRMATION:
        cancelled = last.campaign.state == Campaign.State.CANCELLED
        end(search, Search.State.FINISHED, "the confirmation was cancelled" if cancelled else "", now)
        return
    found = results.evidence(search)
    judge(search, found)
    if last.campaign.state == Campaign.State.CANCELLED:
        pause(search, f"{last.campaign} was cancelled")
    elif not any(each.is_of(last.number) for each in found.values()):
        pause(search, f"no block of {last.campaign} has a result of the default")


def judge(search: Search, found: dict[str, results.Evidence]) -> None:
    """Every trial that has evidence gets its state and figures anew: the same evidence, the same state."""
    varying = unstable({label: each.ratios for label, each in found.items() if not each.failed}, search.campaign.delta)
    trials = [each for each in search.trials.all() if each.label in found]
    for trial in trials:
        own = found[trial.label]
        if own.ratios:
            at = standing_of(search, own)
            trial.blocks, trial.log_ratio, trial.low, trial.high = at.blocks, at.mean, at.low, at.high
        trial.state, trial.reason = Trial.State.MEASURED, ""
        if own.failed:
            trial.state, trial.reason = results.verdict_on(own.failed[-1])
        elif trial.label in varying:
            trial.state, trial.reason = Trial.State.UNSTABLE, VARIES
    Trial.objects.bulk_update(trials, ["state", "reason", "blocks", "log_ratio", "low", "high"])


def standing_of(search: Search, own: results.Evidence) -> Standing:
    return standing([own.rounds[number] for number in sorted(own.rounds)], sizes(search).most_blocks)


def sizes(search: Search) -> strategy.Sizes:
    return strategy.Sizes(search.candidates, search.blocks, search.finalists, search.confirmation_blocks)


def spent_runs(search: Search) -> int:
    """Runs of its campaigns; those that were cancelled before they began cost nothing."""
    ours = Run.objects.filter(campaign__search_round__search=search)
    return ours.exclude(outcome=Run.Outcome.CANCELLED, started_at=None).count()


def left_runs(search: Search) -> int:
    """For each host, where every host runs all combinations."""
    return max(0, search.budget_runs - spent_runs(search)) // hosts(search.campaign)


def hosts(campaign: Campaign) -> int:
    """How many hosts run each combination."""
    each = campaign.placement == Campaign.Placement.EACH
    return 1 + campaign.further_hosts.count() if each else 1


def _plan(search: Search, now: datetime) -> None:
    """The next round, or the confirmation, or the end."""
    trials = {each.number: each for each in search.trials.all()}
    found = results.evidence(search)
    measured = [number for number, each in trials.items() if each.state == Trial.State.MEASURED]
    standings = {number: standing_of(search, found[trials[number].label]) for number in measured}
    waiting = [each for each in trials.values() if each.state == Trial.State.ASKED]
    step = strategy.next_round(sizes(search), standings, left_runs(search), len(waiting))
    if step is not None:
        new = _ask(search, list(trials.values()), step.new)
        running = [trials[number] for number in step.again] + waiting + new
        if running:
            _create(search, running[: search.candidates], Round.Kind.SEARCH)
            return
    final = [trials[number] for number in strategy.finalists(sizes(search), standings)]
    if final:
        _create(search, final, Round.Kind.CONFIRMATION)
    else:
        end(search, Search.State.FINISHED, NOTHING_BETTER, now)


def _ask(search: Search, trials: list[Trial], many: int) -> list[Trial]:
    """New trials, saved."""
    if not many:
        return []
    tried = [optimiser.Tried(each.values, each.log_ratio, each.is_bad) for each in trials]
    seed = optimiser.seed_of(search.seed, len(trials))
    values = optimiser.propose(space.read(search.space), tried, many, seed)
    first = len(trials) + 1
    return Trial.objects.bulk_create(
        Trial(search=search, number=first + place, values=each) for place, each in enumerate(values)
    )


def _create(search: Search, trials: list[Trial], kind: str) -> None:
    """A round and its draft, without the trials that the planner refuses on the hosts. The search pauses if it refuses
    all of them, or refuses for another reason than their values."""
    try:
        _create_round(search, trials, kind)
        return
    except RoleError as error:
        pause(search, words(error))
        return
    except ProvingError as error:
        reason = words(error)
    accepted = [each for each in trials if _is_accepted(search, each, kind)]
    if accepted and len(accepted) < len(trials):
        _create_round(search, accepted, kind)
    else:
        pause(search, f"no candidate can be planned: {reason}")


@transaction.atomic
def _create_round(search: Search, trials: list[Trial], kind: str) -> None:
    campaign = _clone(search, trials, kind)
    Round.objects.create(search=search, number=_next_number(search), kind=kind, campaign=campaign)


def _is_accepted(search: Search, trial: Trial, kind: str) -> bool:
    """False, and the trial is refused, where not even a campaign of it alone can be planned."""
    try:
        with transaction.atomic():
            _clone(search, [trial], kind)
            transaction.set_rollback(True)
    except ProvingError as error:
        trial.state, trial.reason = Trial.State.REFUSED, words(error)
        trial.save(update_fields=["state", "reason"])
        return False
    return True


def _next_number(search: Search) -> int:
    return search.rounds.count() + 1


def _clone(search: Search, trials: list[Trial], kind: str) -> Campaign:
    """A draft: the default first, so that it is the baseline, and the trials, in randomised blocks."""
    if not search.owner.is_active:
        hint = "another user can resume the search and then owns it"
        raise RoleError("owner", f"the account of its owner {search.owner} is switched off", hint=hint)
    require(search.owner, Role.OPERATOR, "start campaign of search", on=search)
    asked, base, number = space.read(search.space), default_level(search.campaign), _next_number(search)
    ordered = sorted(trials, key=lambda each: each.number)
    levels = [{"label": each.label, "set": {**base, **asked.level(each.values)}} for each in ordered]
    confirms = kind == Round.Kind.CONFIRMATION
    changes: dict[str, Any] = {
        "name": f"{search.name}: {'confirmation' if confirms else f'round {number}'}",
        "question": _question(asked, ordered, confirms),
        "factors": [{"name": results.FACTOR, "levels": [{"label": results.DEFAULT, "set": base}, *levels]}],
        "repetitions": search.confirmation_blocks if confirms else search.blocks,
        "seed": optimiser.seed_of(search.seed, -number),
        "order": Campaign.Order.RANDOMISED,
        **dict.fromkeys(("design", "cells", "sample", "stop", "budget_h", "max_failures")),
    }
    return lifecycle.clone_campaign(search.campaign, by=search.owner, **changes)


def _question(asked: Space, trials: list[Trial], confirms: bool) -> str:
    """What is compared, and which settings risk data: every page and report that shows the result has the question."""
    names = "; ".join(f"{each.label}: {asked.text(each.values)}" for each in trials)
    asks = "Are the best candidates better than the default?" if confirms else "Which candidates deserve more runs?"
    risks = "; ".join(f"{name}: {what}" for name, what in asked.risks.items())
    warning = f" Some settings risk data ({risks})." if risks else ""
    return f"{asks}{warning} {names}"


def default_level(campaign: Campaign) -> dict[str, Any]:
    """The paths that the campaign's first combination sets."""
    factors = plan.read_factors(campaign.factors)
    cells = plan.cells(factors, campaign.design, campaign.cells, campaign.sample, campaign.seed)
    return {path: value for level in cells[0].values() for path, value in level.set.items()}


def start(each: Round, now: datetime) -> None:
    """Start the campaign of a round, unless another worker does."""
    free = Round.objects.filter(Q(claimed_until=None) | Q(claimed_until__lt=now), pk=each.pk)
    if not free.filter(state=Round.State.STARTING).update(claimed_until=now + CLAIM):
        return
    search = Search.objects.select_related("campaign__host", "owner").get(pk=each.search_id)
    campaign = Campaign.objects.select_related("host", "workload", "dataset", "profile").get(search_round=each)
    try:
        if campaign.state == Campaign.State.DRAFT:
            campaigns.start_campaign(campaign, by=search.owner)
    except ProvingError as error:
        campaign.refresh_from_db()
        if campaign.state == Campaign.State.DRAFT:
            _refuse(search, each, campaign, error)
            return
    starting = Round.objects.filter(pk=each.pk, state=Round.State.STARTING)
    starting.update(state=Round.State.RUNNING, claimed_until=None)


@transaction.atomic
def _refuse(search: Search, each: Round, campaign: Campaign, error: ProvingError) -> None:
    """The search pauses. Its draft waits: a resumed search starts it."""
    if Round.objects.filter(pk=each.pk, state=Round.State.STARTING).update(claimed_until=None):
        locked = Search.objects.select_for_update().get(pk=search.pk)
        if locked.state == Search.State.RUNNING:
            pause(locked, f"{campaign} cannot start: {words(error)}")


def pause(search: Search, reason: str) -> None:
    """Plan nothing until somebody resumes it; in the caller's transaction, which holds the row."""
    search.state, search.state_reason = Search.State.PAUSED, reason
    search.save(update_fields=["state", "state_reason"])
    audit(None, "search.pause", search, after={"id": str(search.pk), "reason": reason})


def end(search: Search, state: str, reason: str, now: datetime) -> None:
    """In the caller's transaction, which holds the row."""
    search.state, search.state_reason, search.ended_at = state, reason, now
    search.save(update_fields=["state", "state_reason", "ended_at"])
    audit(None, "search.end", search, after={"id": str(search.pk), "state": state, "reason": reason})


def drop(campaign: Campaign) -> None:
    """A draft that will not start is cancelled; in the caller's transaction."""
    draft = Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.DRAFT)
    if draft.update(state=Campaign.State.CANCELLED, state_reason="its search was stopped"):
        queue.close_campaign(campaign.pk)


def words(error: ProvingError) -> str:
    text = error.message if isinstance(error, PlanError) else f"{error.subject}: {error.message}"
    return f"{text}; {error.hint}" if error.hint else text
