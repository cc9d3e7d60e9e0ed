"""Actions on designed campaigns: pause, resume, clone, extend, retry failed runs. Also starts the clones of
schedules and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns import services
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.request import CampaignDesign
from apps.campaigns.execution import halts
from apps.campaigns.library import code
from apps.campaigns.models import Campaign, Run, RunPart
from apps.campaigns.queries import FAILED
from common.errors import PlanError, ProvingError, RoleError

CLAIM = timedelta(minutes=2)  # longer than a start takes

# Designs that define the combinations of a further level.
GROWS = (Campaign.Design.FACTORIAL, Campaign.Design.ONE_AT_A_TIME)


def _locked(campaign: Campaign, states: Sequence[str], action: str) -> Campaign:
    """Return the locked row. PlanError if its state does not allow the action."""
    locked = Campaign.objects.select_for_update().get(pk=campaign.pk)
    if locked.kind != Campaign.Kind.COMPARISON:
        raise PlanError("kind", f"{locked} is not a comparison; only comparisons can be {action}")
    if locked.archived_at:
        raise PlanError("state", f"{locked} is archived", hint="unarchive it first")
    if locked.state not in states:
        hint = f"only a campaign that is {' or '.join(states)} can be {action}"
        raise PlanError("state", f"{locked} is {locked.state}", hint=hint)
    return locked


@transaction.atomic
def pause_campaign(campaign: Campaign, *, by: User, reason: str = "", stop: bool = False) -> None:
    """Start no further run. Active runs continue; with `stop` they are stopped, their hosts restored, and they are
    queued again after all others."""
    require(by, Role.OPERATOR, "pause campaign", on=campaign)
    locked = _locked(campaign, [Campaign.State.RUNNING], "paused")
    halts.pause(locked, reason.strip() or f"by {by}", by=by)
    if stop:
        stopped = list(locked.runs.active().select_related("host"))
        _retry(locked, stopped)
        for run in stopped:
            services.cancel(run)
    campaign.refresh_from_db()


@transaction.atomic
def resume_campaign(campaign: Campaign, *, by: User) -> None:
    """Continue. Earlier failures no longer count towards the number that pauses the campaign."""
    require(by, Role.OPERATOR, "resume campaign", on=campaign)
    locked = _locked(campaign, [Campaign.State.PAUSED], "resumed")
    audit(by, "campaign.resume", locked, before={"reason": locked.state_reason}, after={"id": str(locked.pk)})
    _run_again(locked)
    campaign.refresh_from_db()


def _run_again(campaign: Campaign) -> None:
    """Set the campaign to RUNNING from any state, and arm its hosts."""
    campaign.state, campaign.state_reason, campaign.ended_at = Campaign.State.RUNNING, "", None
    campaign.forgiven_failures = halts.failures(campaign)
    campaign.save(update_fields=["state", "state_reason", "ended_at", "forgiven_failures"])
    halts.enforce(campaign)
    halts.arm_hosts(campaign)


def clone_campaign(campaign: Campaign, *, by: User, **changes: Any) -> Campaign:
    """Return a new draft with every choice of this campaign and none of its results. `changes`: fields of
    CampaignDesign to replace; None restores the default of a field."""
    if campaign.kind != Campaign.Kind.COMPARISON:
        raise PlanError("kind", f"{campaign} is not a comparison; only comparisons can be cloned")
    same = CampaignDesign.of(campaign).changed(name=f"{campaign.name[:113]} (copy)")
    return services.create_draft(same.changed(**changes), by=by, cloned_from=campaign)


def require_owner(owner: User, campaign: Campaign, kind: str) -> None:
    """RoleError if the owner of a schedule or search (its `kind`) may no longer start clones of the campaign. Unlike
    create_campaign, this also refuses accounts that are switched off."""
    if not owner.is_active:
        hint = f"another user can resume the {kind} and then owns it"
        raise RoleError("owner", f"the account of its owner {owner} is switched off", hint=hint)
    require(owner, Role.OPERATOR, f"start campaign of {kind}", on=campaign)


def claim_start(waiting: QuerySet[Any], now: datetime) -> bool:
    """Whether this worker may start the campaign of the `waiting` row, a slot or a round: if it still waits, and no
    other worker has an unexpired claim."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    return bool(waiting.filter(free).update(claimed_until=now + CLAIM))


def start_clone(clone: Campaign, *, of: Campaign, owner: User, kind: str) -> ProvingError | None:
    """Start a draft that a schedule or search (its `kind`) has cloned from `of`. Returns the error if it remains a
    draft."""
    try:
        require_owner(owner, of, kind)
        services.start_campaign(clone, by=owner)
    except ProvingError as error:
        clone.refresh_from_db()
        if clone.state == Campaign.State.DRAFT:
            return error
    return None


@transaction.atomic
def retry_failed(campaign: Campaign, *, by: User, runs: Sequence[Run] | None = None) -> int:
    """Retry the failed runs, or only `runs`, each with the same spec. Returns how many.

    The failed runs remain. A run is retried once; if the retry fails, the retry itself can be retried."""
    require(by, Role.OPERATOR, "retry runs", on=campaign)
    locked = _locked(campaign, [*halts.GOING_ON, Campaign.State.FINISHED], "retried")
    failed = list(failed_runs(locked))
    retried = failed if runs is None else [_retriable(locked, run) for run in runs]
    if not retried:
        raise PlanError("runs", f"{locked} has no failed run that was not retried", hint="extend it instead")
    for run in {(run.host_id, run.digest): run for run in retried}.values():
        previews.check_on_host(run.spec, run.host, previews.facts_of(run.host))
    code.require_for([run.spec for run in retried], by, "retry runs")
    _retry(locked, retried)
    positions = [run.position + 1 for run in retried]
    audit(by, "campaign.retry", locked, after={"id": str(locked.pk), "runs": positions})
    if locked.state == Campaign.State.FINISHED:
        _run_again(locked)
    halts.arm_hosts(locked)
    campaign.refresh_from_db()
    return len(retried)


def failed_runs(campaign: Campaign) -> Any:
    """Return the failed runs that have not been retried."""
    failed = campaign.runs.filter(FAILED)
    return failed.select_related("host").order_by("position")


def _retriable(campaign: Campaign, run: Run) -> Run:
    ended_badly = run.state == Run.State.ENDED and run.outcome != Run.Outcome.OK
    if run.campaign_id != campaign.pk or not ended_badly or run.retries.exists():
        hint = "accepted: a run of this campaign that was not successful and was not retried"
        raise PlanError("runs", f"{run} cannot be retried", hint=hint)
    return run


def _retry(campaign: Campaign, runs: Sequence[Run]) -> None:
    """Plan the same cells in the same blocks, after all other runs; in the caller's transaction."""
    first = services.next_position(campaign)
    same = ("campaign", "host", "block", "cell", "spec", "digest", "facts")
    anew = Run.objects.bulk_create(
        Run(retry_of=run, position=first + place, **{name: getattr(run, name) for name in same})
        for place, run in enumerate(runs)
    )
    of_part = ("host", "role", "position", "spec", "digest")
    RunPart.objects.bulk_create(
        RunPart(run=run, **{name: getattr(part, name) for name in of_part})
        for run in anew
        for part in RunPart.objects.filter(run=run.retry_of).select_related("host")
    )


@transaction.atomic
def extend_campaign(
    campaign: Campaign,
    *,
    by: User,
    repetitions: int | None = None,
    levels: Mapping[str, list[dict[str, Any]]] | None = None,
    budget_h: float | None = None,
) -> int:
    """Add whole blocks of every combination, old and new, from the same seed. Returns how many runs were added.

    `levels`: factor -> levels to add; without `repetitions`, as many blocks as in the original design. Existing
    levels run again next to new ones, because runs of another day are no fair comparison. `budget_h` replaces the
    old budget."""
    require(by, Role.OPERATOR, "extend campaign", on=campaign)
    locked = _locked(campaign, [*halts.GOING_ON, Campaign.State.FINISHED], "extended")
    more = repetitions or (locked.repetitions if levels else 0)
    if more < 1:
        raise PlanError(
            "repetitions", f"{more} is not a number of repetitions", hint="accepted: 1 or more, or new levels"
        )
    if levels and locked.design not in GROWS:
        message = (
            f"the combinations of this design ({locked.get_design_display()}) were chosen from its existing levels"
        )
        raise PlanError("levels", message, hint="add repetitions, or clone the campaign and add the level there")
    before = {"repetitions": locked.repetitions, "factors": locked.factors, "budget_h": locked.budget_h}
    done = _blocks(locked)
    locked.factors = _with_levels(locked.factors, levels or {})
    locked.repetitions = done + more
    locked.budget_h = budget_h or locked.budget_h
    planned = [run for run in previews.preview(locked).runs if run.block >= done]
    services.check_permission(planned, by)
    services.add_runs(locked, planned)
    _record_extension(locked, by, more, levels or {}, done, stopped=done < before["repetitions"])
    audit(by, "campaign.extend", locked, before=before, after=_extended(locked, len(planned)))
    if locked.state == Campaign.State.FINISHED:
        _run_again(locked)
    halts.arm_hosts(locked)
    campaign.refresh_from_db()
    return len(planned)


def _blocks(campaign: Campaign) -> int:
    """Return the number of its blocks; fewer than planned if it was stopped."""
    last = campaign.runs.order_by("-block").values_list("block", flat=True).first()
    return 0 if last is None else last + 1


def _with_levels(factors: list[dict[str, Any]], added: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    known = [factor["name"] for factor in factors]
    for name in added:
        if name not in known:
            raise PlanError(f"levels.{name}", f"factor {name!r} does not exist", hint="one of " + ", ".join(known))
    return [{**factor, "levels": [*factor["levels"], *added.get(factor["name"], [])]} for factor in factors]


def _record_extension(
    campaign: Campaign, by: User, more: int, levels: Mapping[str, Any], done: int, stopped: bool
) -> None:
    """Record the extension in the campaign, because its readers must know that results were visible before it."""
    visible = campaign.runs.filter(outcome=Run.Outcome.OK, ingested_at__isnull=False).count()
    labels = {name: [str(level.get("label")) for level in added] for name, added in levels.items()}
    extension = {
        "at": timezone.now().isoformat(),
        "by": by.username,
        "repetitions": more,
        "levels": labels,
        "seen": visible,
    }
    campaign.extensions = [*campaign.extensions, extension]
    if campaign.state == Campaign.State.FINISHED and campaign.open_blocks is not None:
        # A rule that has stopped the campaign does not apply again. A rule that has not is also applied to the first
        # new block.
        campaign.open_blocks = None if stopped else done + 1
    campaign.save(update_fields=["factors", "repetitions", "budget_h", "extensions", "open_blocks"])


def _extended(campaign: Campaign, runs: int) -> dict[str, Any]:
    extension = campaign.extensions[-1]
    return {
        "id": str(campaign.pk),
        "runs": runs,
        "repetitions": extension["repetitions"],
        "levels": extension["levels"],
    }
