"""Pause a campaign after too many failures, and stop it by its rule or its budget.

Requests of users use the same functions, so there is one way to pause and one to stop."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import audit
from apps.campaigns import queries
from apps.campaigns.execution import campaign_end, queue
from apps.campaigns.models import Campaign, Run, RunQuerySet
from apps.hosts.models import Host
from apps.hosts.usage import leases

GOING_ON = (Campaign.State.RUNNING, Campaign.State.PAUSED)


@transaction.atomic
def pause(campaign: Campaign, reason: str, *, by: User | None = None) -> bool:
    """Start no further run. False if the campaign is not running. Runs that an agent knows continue."""
    running = Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.RUNNING)
    if not running.update(state=Campaign.State.PAUSED, state_reason=reason):
        return False
    _lock_hosts(campaign)
    # A tick that has locked a row starts its run now; later ones find the campaign paused.
    armed = _queued(campaign).filter(next_tick_at__isnull=False).select_for_update(skip_locked=True, of=("self",))
    for run in armed.select_related("host"):
        release_machines(run)
    Run.objects.filter(pk__in=[run.pk for run in armed]).update(next_tick_at=None)
    audit(by, "campaign.pause", campaign, after={"id": str(campaign.pk), "reason": reason})
    campaign.refresh_from_db()
    arm_hosts(campaign)
    return True


@transaction.atomic
def stop_campaign(campaign: Campaign, reason: str) -> bool:
    """Finish a campaign before its last run. False if it has ended already.

    Runs that were never armed are deleted; `reason` and the history contain their number. Runs that an agent knows
    continue to their end.
    """
    going_on = Campaign.objects.filter(pk=campaign.pk, state__in=GOING_ON)
    if not going_on.update(state=Campaign.State.FINISHED):
        return False
    _lock_hosts(campaign)
    count = _forget_queued(campaign)
    full_reason = f"{reason}; {count} planned run{'' if count == 1 else 's'} did not start" if count else reason
    Campaign.objects.filter(pk=campaign.pk).update(state_reason=full_reason)
    campaign_end.close_campaign(campaign.pk)
    audit(None, "campaign.stop", campaign, after={"id": str(campaign.pk), "reason": full_reason})
    campaign.refresh_from_db()
    arm_hosts(campaign)
    return True


def _forget_queued(campaign: Campaign) -> int:
    """Delete queued runs. One that a tick holds right now is ended instead, because its machine could be leased to
    it."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=timezone.now())
    idle = _queued(campaign).filter(free, next_tick_at=None).select_for_update(skip_locked=True, of=("self",))
    count, _ = Run.objects.filter(pk__in=[run.pk for run in idle]).delete()
    return count + sum(end_queued(run) for run in _queued(campaign).select_related("host"))


def end_queued(run: Run) -> bool:
    """Cancel a run that its agent does not know yet, and release its machines. False if it is not queued."""
    queued = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED)
    now = timezone.now()
    if not queued.update(state=Run.State.ENDED, outcome=Run.Outcome.CANCELLED, ended_at=now, next_tick_at=None):
        return False
    run.parts.update(state=Run.State.ENDED, outcome=Run.Outcome.CANCELLED)
    release_machines(run)
    return True


def _lock_hosts(campaign: Campaign) -> None:
    """Lock the hosts before their runs, in the same order as `queue.arm_host`."""
    used = Run.objects.filter(campaign=campaign).values("host")
    list(Host.objects.filter(pk__in=used).order_by("pk").select_for_update())


def release_machines(run: Run) -> None:
    """Release the machines of a run that did not start: its own, and those of its parts."""
    leases.release(run.host.machine_id, run.pk)
    for part in run.parts.select_related("host"):
        leases.release(part.host.machine_id, part.pk)


def _queued(campaign: Campaign) -> RunQuerySet:
    return Run.objects.filter(campaign=campaign, state=Run.State.QUEUED)


def arm_hosts(campaign: Campaign) -> None:
    """Arm the hosts in the order of their keys, the order in which all code locks them."""
    hosts = Run.objects.filter(campaign=campaign).order_by("host_id").values_list("host_id", flat=True).distinct()
    for host_id in hosts:
        queue.arm_host(host_id)


def after(run: Run) -> None:
    """At the end of a run, in the caller's transaction: drop what its campaign no longer needs or permits."""
    campaign = Campaign.objects.select_for_update().get(pk=run.campaign_id)
    if run.outcome == Run.Outcome.OK:
        # It succeeded before it was stopped, so its combination must not run and count again.
        run.retries.filter(state=Run.State.QUEUED, next_tick_at=None).delete()
    enforce(campaign)


def enforce(campaign: Campaign) -> None:
    """Pause after too many failures, and stop if the next run would exceed the budget.

    In the caller's transaction, which has locked the campaign's row."""
    limited = campaign.max_failures or campaign.budget_h is not None
    if not limited or campaign.state != Campaign.State.RUNNING or not _queued(campaign).exists():
        return
    failed = failures(campaign) - campaign.forgiven_failures
    if campaign.max_failures and failed >= campaign.max_failures:
        if pause(campaign, f"{failed} run{'' if failed == 1 else 's'} failed; the limit is {campaign.max_failures}"):
            campaign_end.notify_end(campaign)
    elif reason := over_budget(campaign):
        stop_campaign(campaign, reason)


def failures(campaign: Campaign) -> int:
    return Run.objects.filter(campaign=campaign, outcome__in=queries.NOT_OK).count()


def over_budget(campaign: Campaign) -> str:
    """Why no further run may begin; "" while one may, and without a budget.

    The hours of its runs count, not those in which it waited or was paused.
    """
    following = _queued(campaign).order_by("position").first()
    if campaign.budget_h is None or following is None:
        return ""
    going_on = sum(queries.run_seconds(run) for run in campaign.runs.active())
    used_h, next_s = (queries.taken_s(campaign) + going_on) / 3600, queries.run_seconds(following)
    if used_h + next_s / 3600 <= campaign.budget_h:
        return ""
    return f"{used_h:.2f} of {campaign.budget_h:g} hours are used, and the next run takes about {next_s:.0f} s"
