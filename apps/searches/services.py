"""What a user does with a search: create, pause, resume, extend and stop it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns import services as campaigns
from apps.campaigns.design import steps
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution.halts import GOING_ON
from apps.campaigns.models import Campaign
from apps.searches import presets, rounds
from apps.searches import space as spaces
from apps.searches.models import Round, Search
from common.errors import PlanError

MOST_RUNS = 10_000
# field -> what is accepted
SIZES = {"candidates": (1, 20), "blocks": (1, 20), "finalists": (1, 10), "confirmation_blocks": (3, 100)}


@transaction.atomic
def create_search(
    campaign: Campaign,
    *,
    by: User,
    name: str,
    space: Sequence[str],
    budget_runs: int,
    allowed_risks: Sequence[str] = (),
    seed: int | None = None,
    **sizes: int,
) -> Search:
    """Search from now on, with the permissions of `by`. PlanError names the field that is wrong; RoleError where a
    setting risks data and `by` is no admin."""
    require(by, Role.OPERATOR, "create search", on=campaign)
    if campaign.kind != Campaign.Kind.COMPARISON:
        hint = "choose a campaign that compares levels"
        raise PlanError("campaign", f"{campaign} is not a comparison and cannot be repeated", hint=hint)
    if allowed_risks:
        require(by, Role.ADMIN, "allow settings that risk data", on=campaign)
    if not campaign.metric or steps.metric(campaign.steps, campaign.metric).better not in ("higher", "lower"):
        hint = "choose a campaign whose metric is better if higher or lower"
        raise PlanError("campaign", f"neither direction of {campaign.metric or 'its metric'} is better", hint=hint)
    lines = _checked(space, campaign, allowed_risks)
    search = Search(
        campaign=campaign,
        owner=by,
        name=name.strip(),
        space=lines,
        allowed_risks=list(allowed_risks),
        budget_runs=budget_runs,
        seed=secrets.randbits(32) if seed is None else seed,
        run_s=_run_s(campaign),
        **sizes,
    )
    _check_sizes(search)
    save(search)
    audit(by, "search.create", search, after=_told(search))
    return search


def _checked(lines: Sequence[str], campaign: Campaign, allowed: Sequence[str]) -> list[str]:
    found = spaces.read(presets.expanded(lines, previews.facts_of(campaign.host)))
    for host in {campaign.host, *campaign.further_hosts.all()}:
        spaces.check(found, previews.facts_of(host), allowed)
    return list(found.lines)


def _run_s(campaign: Campaign) -> float:
    """Estimated seconds of a run; PlanError where its runs cannot be planned now."""
    preview = previews.preview(campaign)
    return preview.seconds / max(1, len(preview.runs))


def _check_sizes(search: Search) -> None:
    for field, (least, most) in SIZES.items():
        if not least <= getattr(search, field) <= most:
            raise PlanError(field, f"{getattr(search, field)} is not a number from {least} to {most}")
    least = rounds.sizes(search).least_runs * rounds.hosts(search.campaign)
    if not least <= search.budget_runs <= MOST_RUNS:
        said = f"{search.budget_runs:,} is not a number of runs from {least:,} to {MOST_RUNS:,}"
        hint = f"one round and the confirmation need {least:,}; use fewer candidates, finalists or blocks for less"
        raise PlanError("budget_runs", said, hint=hint)


@transaction.atomic
def pause_search(search: Search, *, by: User) -> None:
    """Plan nothing until it is resumed. The campaign of its round goes on to its end."""
    require(by, Role.OPERATOR, "pause search", on=search)
    locked = _locked(search, [Search.State.RUNNING], "paused")
    locked.state, locked.state_reason = Search.State.PAUSED, f"by {by}"
    locked.save(update_fields=["state", "state_reason"])
    audit(by, "search.pause", locked, after={"id": str(locked.pk)})
    search.refresh_from_db()


@transaction.atomic
def resume_search(search: Search, *, by: User) -> None:
    """Go on. Whoever resumes a search owns it from then on."""
    require(by, Role.OPERATOR, "resume search", on=search)
    locked = _locked(search, [Search.State.PAUSED], "resumed")
    before = {"owner": locked.owner.username, "reason": locked.state_reason}
    locked.state, locked.state_reason, locked.owner = Search.State.RUNNING, "", by
    locked.save(update_fields=["state", "state_reason", "owner"])
    audit(by, "search.resume", locked, before=before, after=_told(locked))
    search.refresh_from_db()


@transaction.atomic
def stop_search(search: Search, *, by: User) -> None:
    """End it without a confirmation. The campaign of its round is cancelled."""
    require(by, Role.OPERATOR, "stop search", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED], "stopped")
    for each in locked.rounds.exclude(state=Round.State.DONE).select_related("campaign__host"):
        if each.campaign.state in GOING_ON:
            campaigns.cancel_campaign(each.campaign, by=by)
        rounds.drop(each.campaign)
    locked.state, locked.state_reason, locked.ended_at = Search.State.STOPPED, f"by {by}", timezone.now()
    locked.save(update_fields=["state", "state_reason", "ended_at"])
    audit(by, "search.stop", locked, after={"id": str(locked.pk)})
    search.refresh_from_db()


@transaction.atomic
def extend_search(search: Search, *, by: User, runs: int) -> None:
    """Add runs to its budget. One that has finished goes on, and ends with another confirmation."""
    require(by, Role.OPERATOR, "extend search", on=search)
    locked = _locked(search, [Search.State.RUNNING, Search.State.PAUSED, Search.State.FINISHED], "extended")
    if locked.rounds.filter(kind=Round.Kind.CONFIRMATION).exclude(state=Round.State.DONE).exists():
        raise PlanError("state", f"{locked} is being confirmed", hint="extend it after the confirmation")
    least = rounds.sizes(locked).least_runs if locked.state == Search.State.FINISHED else 1
    if not least <= runs <= MOST_RUNS:
        said = f"{runs:,} is not a number of runs from {least:,} to {MOST_RUNS:,}"
        raise PlanError("runs", said, hint="another round and another confirmation must fit" if least > 1 else "")
    before = {"budget_runs": locked.budget_runs, "state": locked.state}
    if locked.state == Search.State.FINISHED:
        locked.state, locked.state_reason, locked.ended_at, locked.owner = Search.State.RUNNING, "", None, by
    locked.budget_runs += runs
    locked.save(update_fields=["state", "state_reason", "ended_at", "owner", "budget_runs"])
    audit(by, "search.extend", locked, before=before, after=_told(locked))
    search.refresh_from_db()


def _locked(search: Search, states: Sequence[str], action: str) -> Search:
    rows = Search.objects.select_for_update(of=("self",)).select_related("campaign__host", "owner")
    locked = rows.get(pk=search.pk)
    if locked.state not in states:
        hint = f"only a search that is {' or '.join(states)} can be {action}"
        raise PlanError("state", f"{locked} is {locked.state}", hint=hint)
    return locked


def _told(search: Search) -> dict[str, Any]:
    names = ("space", "allowed_risks", "budget_runs", "seed", *SIZES)
    about = {"id": str(search.pk), "campaign": str(search.campaign_id), "owner": search.owner.username}
    return about | {name: getattr(search, name) for name in names}
