"""What a user does with a search: create, pause, resume, extend, change and stop it, and choose its finalists."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns import services as campaigns
from apps.campaigns.design import steps
from apps.campaigns.design.before_start import previews
from apps.campaigns.models import Campaign
from apps.searches import budget, earlier, presets, rounds
from apps.searches import constraints as limits
from apps.searches import space as spaces
from apps.searches.models import Round, Search, Trial
from common.errors import PlanError
from common.wording import counted

MOST_RUNS = 10_000
MOST_MINUTES = 100_000  # 69 days
BOTH_ENDS = 2
# field -> accepted numbers, from and to
SIZES = {"candidates": (1, 20), "blocks": (1, 20), "finalists": (1, 10), "confirmation_blocks": (3, 100)}


@transaction.atomic
def create_search(
    campaign: Campaign,
    *,
    by: User,
    name: str,
    space: Sequence[str],
    budget_runs: int | None = None,
    budget_minutes: int | None = None,
    constraints: Sequence[str] = (),
    allowed_risks: Sequence[str] = (),
    warm_start: bool = False,
    second_metric: str = "",
    seed: int | None = None,
    **sizes: int,
) -> Search:
    """Start a search with the permissions of `by`. PlanError names the wrong field; RoleError if a setting risks data
    and `by` is not an admin."""
    require(by, Role.OPERATOR, "create search", on=campaign)
    if allowed_risks:
        require(by, Role.ADMIN, "allow settings that risk data", on=campaign)
    _check_campaign(campaign)
    _check_second_metric(second_metric, campaign)
    _check_rate("campaign", campaign.metric, campaign)
    _check_rate("second_metric", second_metric, campaign)
    lines = _valid_lines(space, campaign, allowed_risks)
    limit_lines = [limit.line for limit in limits.read(constraints, campaign.steps)]
    learned = earlier.Earlier([], {})
    if warm_start:
        learned = earlier.comparable(campaign, spaces.read(lines), limit_lines, second_metric)
    search = Search(
        campaign=campaign,
        owner=by,
        name=name.strip(),
        second_metric=second_metric,
        space=lines,
        allowed_risks=list(allowed_risks),
        earlier=learned.trials,
        earlier_left_out=learned.left_out,
        constraints=limit_lines,
        budget_runs=budget_runs,
        budget_minutes=budget_minutes,
        seed=secrets.randbits(32) if seed is None else seed,
        run_s=_run_s(campaign),
        **sizes,
    )
    _check_sizes(search)
    save(search)
    audit(by, "search.create", search, after=_audited(search))
    return search


def _check_campaign(campaign: Campaign) -> None:
    """PlanError unless a search can repeat the campaign and improve its metric."""
    if campaign.kind != Campaign.Kind.COMPARISON:
        hint = "choose a campaign that compares levels"
        raise PlanError("campaign", f"{campaign} is not a comparison and cannot be repeated", hint=hint)
    if not campaign.metric or steps.metric(campaign.steps, campaign.metric).better not in ("higher", "lower"):
        hint = "choose a campaign whose metric is better if higher or lower"
        raise PlanError("campaign", f"neither direction of {campaign.metric or 'its metric'} is better", hint=hint)


def _check_rate(field: str, metric: str, campaign: Campaign) -> None:
    """PlanError for a throughput at a fixed rate, because no candidate can improve it."""
    instead = campaign.compared_instead_of(metric)
    if instead != metric:
        hint = f"clone the campaign with the metric {instead}" if field == "campaign" else f"choose {instead}"
        raise PlanError(field, f"all runs have a fixed rate, so {metric} does not show which one is better", hint=hint)


def _check_second_metric(name: str, campaign: Campaign) -> None:
    """PlanError unless it is empty, or another metric of the campaign of which one direction is better."""
    if not name:
        return
    try:
        second = steps.metric(campaign.steps, name)
    except PlanError as error:
        raise PlanError("second_metric", error.message, hint=error.hint) from error
    first = steps.metric(campaign.steps, campaign.metric)
    if (second.step, second.name) == (first.step, first.name):
        raise PlanError("second_metric", f"{name} is the first metric", hint="choose another, or leave it empty")
    if second.better not in ("higher", "lower"):
        hint = "choose a metric that is better if higher or lower"
        raise PlanError("second_metric", f"neither direction of {name} is better", hint=hint)


def _valid_lines(lines: Sequence[str], campaign: Campaign, allowed: Sequence[str]) -> list[str]:
    checked = spaces.read(presets.expanded(lines, previews.facts_of(campaign.host)))
    for host in {campaign.host, *campaign.further_hosts.all()}:
        spaces.check(checked, previews.facts_of(host), allowed)
    return list(checked.lines)


def _run_s(campaign: Campaign) -> float:
    """Estimated seconds of a run; PlanError if its runs cannot be planned now."""
    preview = previews.preview(campaign)
    return preview.seconds / max(1, len(preview.runs))


def _check_sizes(search: Search) -> None:
    for field, (least, most) in SIZES.items():
        if not least <= getattr(search, field) <= most:
            raise PlanError(field, f"{getattr(search, field)} is not a number from {least} to {most}")
    if search.second_metric and search.finalists < BOTH_ENDS:
        raise PlanError("finalists", "1 is too few for two metrics", hint="at least 2: both ends of the Pareto front")
    if search.budget_runs is None and search.budget_minutes is None:
        raise PlanError("budget_runs", "a search needs a budget", hint="enter a number of runs, of minutes, or both")
    least = budget.sizes(search).least_runs
    smaller = "use fewer candidates, finalists or blocks for less"
    if search.budget_runs is not None and not least <= search.budget_runs <= MOST_RUNS:
        hint = f"one round and the confirmation need {least:,}; {smaller}"
        raise _outside("budget_runs", search.budget_runs, "runs", least, MOST_RUNS, hint)
    at_once = budget.hosts(search)
    minutes = _minutes(least, search.run_s, at_once)
    if search.budget_minutes is not None and not minutes <= search.budget_minutes <= MOST_MINUTES:
        hint = f"one round and the confirmation need {least:,} runs of about {search.run_s:.0f} s; {smaller}"
        raise _outside("budget_minutes", search.budget_minutes, "minutes", minutes, MOST_MINUTES, hint)


def _minutes(runs: int, run_s: float, hosts: int) -> int:
    """Whole minutes that the runs take on this number of hosts at once."""
    return max(1, math.ceil(runs * run_s / hosts / 60))


def _outside(field: str, number: int, unit: str, least: int, most: int, hint: str) -> PlanError:
    return PlanError(field, f"{number:,} is not a number of {unit} from {least:,} to {most:,}", hint=hint)


@transaction.atomic
def pause_search(search: Search, *, by: User) -> None:
    """Plan nothing until it is resumed. The campaign of its round continues to its end."""
    require(by, Role.OPERATOR, "pause search", on=search)
    rounds.pause(_locked(search, [Search.State.RUNNING], "paused"), f"by {by}", by=by)
    search.refresh_from_db()


@transaction.atomic
def resume_search(search: Search, *, by: User) -> None:
    """Continue a paused search. `by` owns it from then on."""
    require(by, Role.OPERATOR, "resume search", on=search)
    locked = _locked(search, [Search.State.PAUSED], "resumed")
    before = {"owner": locked.owner.username, "reason": locked.state_reason}
    locked.state, locked.state_reason, locked.owner = Search.State.RUNNING, "", by
    locked.save(update_fields=["state", "state_reason", "owner"])
    audit(by, "search.resume", locked, before=before, after=_audited(locked))
    search.refresh_from_db()


@transaction.atomic
def stop_search(search: Search, *, by: User) -> None:
    """End it without a confirmation. The campaign of its round is cancelled."""
    require(by, Role.OPERATOR, "stop search", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED], "stopped")
    # Locked, because a worker may be starting the campaign.
    open_campaigns = Campaign.objects.filter(search_round__search=locked, state__in=rounds.OPEN)
    for campaign in open_campaigns.select_for_update(of=("self",)).select_related("host"):
        campaigns.cancel_campaign(campaign, by=by)
    rounds.end(locked, Search.State.STOPPED, f"by {by}", timezone.now(), by=by)
    search.refresh_from_db()


@transaction.atomic
def extend_search(search: Search, *, by: User, runs: int = 0, minutes: int = 0) -> None:
    """Add runs and minutes to its budget. A finished search continues, and ends with another confirmation."""
    require(by, Role.OPERATOR, "extend search", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED, Search.State.FINISHED], "extended")
    if locked.rounds.filter(kind=Round.Kind.CONFIRMATION).exclude(state=Round.State.DONE).exists():
        raise PlanError("state", f"{locked} is being confirmed", hint="extend it after the confirmation")
    before = {"budget_runs": locked.budget_runs, "budget_minutes": locked.budget_minutes, "state": locked.state}
    _extend(locked, runs, minutes)
    if locked.state == Search.State.FINISHED:
        locked.state, locked.state_reason, locked.ended_at, locked.owner = Search.State.RUNNING, "", None, by
    locked.save(update_fields=["state", "state_reason", "ended_at", "owner", "budget_runs", "budget_minutes"])
    audit(by, "search.extend", locked, before=before, after=_audited(locked))
    search.refresh_from_db()


@transaction.atomic
def change_search(
    search: Search, *, by: User, add: Sequence[str] = (), fix: Mapping[str, str] | None = None, free: Sequence[str] = ()
) -> None:
    """Vary further settings, fix settings at a value, and vary fixed ones again, from the next round on. Earlier trials
    had the default of a setting that is added. Those without a fixed value are learned from, but not confirmed."""
    require(by, Role.OPERATOR, "change search", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED, Search.State.FINISHED], "changed")
    before = _audited(locked)
    lines = [each for each in add if each.strip()]
    if not lines and not fix and not free:
        raise PlanError("add", "nothing changes", hint="enter settings to add, to fix, or to vary again")
    if lines:
        locked.space = _valid_lines([*locked.space, *lines], locked.campaign, locked.allowed_risks)
    locked.fixed = _fixed(locked, fix or {}, free)
    locked.save(update_fields=["space", "fixed"])
    audit(by, "search.change", locked, before=before, after=_audited(locked))
    search.refresh_from_db()


@transaction.atomic
def pick_trials(search: Search, *, by: User, trials: Sequence[int]) -> None:
    """Confirm the trials with these numbers instead of those that the search chooses. Without any, it chooses again."""
    require(by, Role.OPERATOR, "pick trials", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED, Search.State.FINISHED], "changed")
    most = SIZES["finalists"][1]
    picked = sorted(set(trials))
    if len(picked) > most:
        raise PlanError("trials", f"{len(picked)} trials are too many", hint=f"at most {most}")
    measured = set(locked.trials.filter(state=Trial.State.MEASURED).values_list("number", flat=True))
    if unknown := [number for number in picked if number not in measured]:
        accepted = ", ".join(map(str, sorted(measured))) or "none yet"
        message = f"trial {unknown[0]} has no result that can be confirmed"
        raise PlanError("trials", message, hint=f"accepted: {accepted}")
    before = {"picked": locked.picked}
    locked.picked = picked
    _check_confirmation_fits(locked)
    locked.save(update_fields=["picked"])
    audit(by, "search.pick", locked, before=before, after=_audited(locked))
    search.refresh_from_db()


def _check_confirmation_fits(search: Search) -> None:
    """PlanError if a confirmation has started, or if that of the picked trials exceeds the rest of the budget. The
    budget of a finished search is not checked, because a user extends it before the next confirmation."""
    if search.rounds.filter(kind=Round.Kind.CONFIRMATION).exclude(state=Round.State.DONE).exists():
        raise PlanError("trials", f"{search} is being confirmed", hint="pick trials after the confirmation")
    needed, left = budget.sizes(search).confirmation_runs(), budget.of(search).left_runs
    if search.state != Search.State.FINISHED and needed > left:
        message = f"their confirmation needs {counted(needed, 'run')}, and {left} are left"
        raise PlanError("trials", message, hint="pick fewer trials, or extend the budget")


def _fixed(search: Search, fix: Mapping[str, str], free: Sequence[str]) -> dict[str, Any]:
    """Fixed values after a change. PlanError if a setting is unknown, or if none would vary."""
    known = {dimension.name: dimension for dimension in spaces.read(search.space).dimensions}
    for field, name in [*(("fix", name) for name in fix), *(("free", name) for name in free)]:
        accepted = search.fixed if field == "free" else known
        if name not in accepted:
            what = "fixed" if field == "free" else "varied"
            raise PlanError(field, f"{name} is not {what}", hint=f"accepted: {', '.join(accepted) or 'none'}")
    still_fixed = {name: value for name, value in search.fixed.items() if name not in free}
    fixed = still_fixed | {name: spaces.value_of("fix", known[name], text) for name, text in fix.items()}
    if len(fixed) == len(known):
        raise PlanError("fix", "no setting is left to vary", hint="leave at least one setting free")
    return fixed


def _extend(search: Search, runs: int, minutes: int) -> None:
    """Add to both limits of a locked search. PlanError names the limit that leaves a finished search too little."""
    for field, limit, added, most in (
        ("runs", search.budget_runs, runs, MOST_RUNS),
        ("minutes", search.budget_minutes, minutes, MOST_MINUTES),
    ):
        if limit is None and added:
            hint = f"it has a budget in {'minutes' if field == 'runs' else 'runs'}: extend that"
            raise PlanError(field, f"{search} has no budget in {field}", hint=hint)
        if not 0 <= added <= most:
            raise _outside(field, added, field, 0, most, "")
    if not runs and not minutes:
        raise PlanError("runs", "nothing is added to the budget", hint="enter a number of runs, of minutes, or both")
    search.budget_runs = None if search.budget_runs is None else search.budget_runs + runs
    search.budget_minutes = None if search.budget_minutes is None else search.budget_minutes + minutes
    if search.state == Search.State.FINISHED:
        _check_left(search, runs, minutes)


def _check_left(search: Search, runs: int, minutes: int) -> None:
    """PlanError unless another round and another confirmation fit into both limits of its new budget."""
    spent, least = budget.of(search), budget.sizes(search).least_runs
    reason = "another round and another confirmation must fit"
    if spent.runs is not None and spent.runs - spent.spent_runs < least:
        needed = runs + least - (spent.runs - spent.spent_runs)
        raise _outside("runs", runs, "runs", needed, MOST_RUNS, reason)
    if spent.seconds is not None and spent.runs_in(spent.seconds - spent.spent_s) < least:
        short_s = spent.seconds_of(least) - (spent.seconds - spent.spent_s)
        raise _outside("minutes", minutes, "minutes", minutes + math.ceil(short_s / 60), MOST_MINUTES, reason)


def _locked(search: Search, states: Sequence[str], action: str) -> Search:
    rows = Search.objects.select_for_update(of=("self",)).select_related("campaign__host", "owner")
    locked = rows.get(pk=search.pk)
    if locked.state not in states:
        hint = f"only a search that is {' or '.join(states)} can be {action}"
        raise PlanError("state", f"{locked} is {locked.state}", hint=hint)
    return locked


def _audited(search: Search) -> dict[str, Any]:
    design = ("second_metric", "space", "fixed", "picked", "constraints", "allowed_risks")
    fields = (*design, "budget_runs", "budget_minutes", "seed", *SIZES)
    references = {"id": str(search.pk), "campaign": str(search.campaign_id), "owner": search.owner.username}
    return references | {name: getattr(search, name) for name in fields}
