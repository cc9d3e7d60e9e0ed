"""Decides each slot of a schedule: its campaign starts, or is skipped, missed or refused, with the reason.

A slot is decided in one transaction that locks the schedule's row and advances its next time, so that two workers never
decide the same one. The transaction creates the campaign as a draft. It is started afterwards, because that contacts
hosts. If the worker dies in between, its claim expires and another worker starts the same draft. No function here reads
the clock: `now` is an argument.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse

from apps.accounts.notices.notify import notify
from apps.accounts.services import audit
from apps.campaigns import lifecycle
from apps.campaigns.execution import campaign_end, queue
from apps.campaigns.models import Campaign, Schedule, Slot
from apps.campaigns.schedules import times
from apps.hosts.models import Host
from apps.hosts.usage import windows
from common.errors import ProvingError, RoleError
from common.wording import host_state

MOST_MISSED = 500  # of one time without a server: the newest are recorded
UNREACHED = (*queue.OUT_OF_SERVICE, Host.State.UNREACHABLE, Host.State.NEW, Host.State.ARCHIVE)
GOING_ON = (Campaign.State.RUNNING, Campaign.State.PAUSED)


def due(now: datetime) -> list[UUID]:
    """Schedules with a slot to decide, or with a campaign that waits to be started."""
    decided = Q(state=Schedule.State.ACTIVE, next_at__lte=now)
    starting = Q(pk__in=Slot.objects.filter(outcome=Slot.Outcome.STARTING).values("schedule"))
    return list(Schedule.objects.filter(decided | starting).order_by("next_at").values_list("pk", flat=True))


def fire(schedule: UUID, now: datetime) -> None:
    """Decide the schedule's slots up to now, and start the campaigns that wait for it."""
    decide(schedule, now)
    for slot in Slot.objects.filter(schedule=schedule, outcome=Slot.Outcome.STARTING).order_by("at"):
        start(slot, now)


@transaction.atomic
def decide(key: UUID, now: datetime) -> None:
    """Record every slot up to now. Nothing where another worker does it, or where nothing is due."""
    open_ = Schedule.objects.filter(pk=key, state=Schedule.State.ACTIVE, next_at__lte=now)
    schedule = open_.select_for_update(skip_locked=True, of=("self",)).select_related("campaign__host", "owner").first()
    if schedule is None or schedule.next_at is None:
        return
    calendar = times.read(schedule.when, schedule.time_zone)
    later = takewhile(lambda at: at <= now, calendar.after(schedule.next_at))
    slots = [schedule.next_at, *later][-MOST_MISSED:]
    missed = []
    for at in slots:
        slot = _decided(schedule, at, now)
        missed += [slot] if slot.outcome == Slot.Outcome.MISSED else []
        if schedule.state != Schedule.State.ACTIVE:
            break
    if missed:
        _notify_missed(schedule, missed)
    if schedule.state == Schedule.State.ACTIVE:
        schedule.next_at = next(calendar.after(now))
        schedule.save(update_fields=["next_at"])


def _decided(schedule: Schedule, at: datetime, now: datetime) -> Slot:
    """The new slot. Its campaign is a draft where it is to start."""
    outside = _outside(schedule, at)
    if outside:
        return _record(schedule, at, now, Slot.Outcome.SKIPPED, outside)
    if now - at > timedelta(minutes=schedule.late_by_min):
        return _record(schedule, at, now, Slot.Outcome.MISSED, _late(schedule, at, now))
    hindered = _hindered(schedule)
    if hindered:
        return _record(schedule, at, now, Slot.Outcome.SKIPPED, hindered)
    try:
        with transaction.atomic():
            lifecycle.require_owner(schedule.owner, schedule.campaign, "schedule")
            clone = lifecycle.clone_campaign(schedule.campaign, by=schedule.owner, seed=None, name=_name(schedule, at))
    except RoleError as error:
        stop(schedule, error.reason)
        return _record(schedule, at, now, Slot.Outcome.SKIPPED, f"the schedule stopped: {schedule.state_reason}")
    except ProvingError as error:
        _notify_refused(schedule, at, error.reason)
        return _record(schedule, at, now, Slot.Outcome.REFUSED, error.reason)
    return _record(schedule, at, now, Slot.Outcome.STARTING, campaign=clone)


def _record(
    schedule: Schedule, at: datetime, now: datetime, outcome: str, reason: str = "", campaign: Campaign | None = None
) -> Slot:
    return Slot.objects.create(
        schedule=schedule, at=at, outcome=outcome, reason=reason, campaign=campaign, decided_at=now
    )


def _outside(schedule: Schedule, at: datetime) -> str:
    """Why the schedule's window excludes a time; "" where it does not."""
    calendar = windows.read(schedule.windows, schedule.time_zone)
    if not calendar.windows or calendar.open_until(at) is not None:
        return ""
    return f"outside its window: {', '.join(map(str, calendar.windows))}"


def _late(schedule: Schedule, at: datetime, now: datetime) -> str:
    zone = times.read(schedule.when, schedule.time_zone).zone
    up_at = windows.local_time(now, zone, at)
    return f"the server was down until {up_at}; the maximum delay is {schedule.late_by_min} min"


def _hindered(schedule: Schedule) -> str:
    """Why its next campaign cannot start now: the one before it goes on, or a host is out of service; else ""."""
    before = schedule.slots.filter(Q(campaign__state__in=GOING_ON) | Q(outcome=Slot.Outcome.STARTING))
    previous = before.select_related("campaign").first()
    if previous and previous.campaign:
        state = "is paused" if previous.campaign.state == Campaign.State.PAUSED else "still runs"
        return f"{previous.campaign} {state}"
    away = _hosts(schedule.campaign).filter(state__in=UNREACHED).order_by("name").first()
    if away is None:
        return ""
    reason = f": {away.state_reason}" if away.state_reason else ""
    return f"{away} is {host_state(away.state)}{reason}"


def _hosts(campaign: Campaign) -> QuerySet[Host]:
    """All that a campaign needs: its host, further ones, and those that have a role."""
    roles = campaign.roles if isinstance(campaign.roles, dict) else {}
    keys = [campaign.host_id, roles.get("client"), *(roles.get("standbys") or [])]
    further = campaign.further_hosts.values("pk")
    return Host.objects.filter(Q(pk__in=[key for key in keys if isinstance(key, int)]) | Q(pk__in=further))


def _name(schedule: Schedule, at: datetime) -> str:
    zone = times.read(schedule.when, schedule.time_zone).zone
    return f"{schedule.name} {at.astimezone(zone):%Y-%m-%d %H:%M}"


def start(slot: Slot, now: datetime) -> None:
    """Start the campaign of a slot, unless another worker has claimed it. If it is too late, the slot is missed."""
    if not lifecycle.claim_start(Slot.objects.filter(pk=slot.pk, outcome=Slot.Outcome.STARTING), now):
        return
    schedule = Schedule.objects.select_related("campaign__host", "owner").get(pk=slot.schedule_id)
    campaign = Campaign.objects.select_related("host", "workload", "dataset", "profile").get(slot=slot)
    if campaign.state != Campaign.State.DRAFT:
        _settle_begun(slot, campaign)
    elif now - slot.at > timedelta(minutes=schedule.late_by_min) + lifecycle.CLAIM:
        _settle_late(slot, schedule, campaign, now)
    else:
        _start(slot, schedule, campaign)


def _start(slot: Slot, schedule: Schedule, campaign: Campaign) -> None:
    error = lifecycle.start_clone(campaign, of=schedule.campaign, owner=schedule.owner, kind="schedule")
    if error:
        _settle_refused(slot, schedule, campaign, error)
    else:
        _settle_begun(slot, campaign)


def _settle_begun(slot: Slot, campaign: Campaign) -> None:
    """Its campaign is no draft any more: this worker or an earlier one started it, or a user cancelled it."""
    campaign.refresh_from_db()
    cancelled = campaign.started_at is None
    outcome = Slot.Outcome.SKIPPED if cancelled else Slot.Outcome.STARTED
    _settle(slot, outcome, f"{campaign} was cancelled before it started" if cancelled else "")


def _settle(slot: Slot, outcome: str, reason: str = "") -> bool:
    waits = Slot.objects.filter(pk=slot.pk, outcome=Slot.Outcome.STARTING)
    return bool(waits.update(outcome=outcome, reason=reason, claimed_until=None))


@transaction.atomic
def _settle_late(slot: Slot, schedule: Schedule, campaign: Campaign, now: datetime) -> None:
    reason = _late(schedule, slot.at, now)
    if _settle(slot, Slot.Outcome.MISSED, reason):
        _drop(campaign, reason)
        _notify_missed(schedule, [slot])


@transaction.atomic
def _settle_refused(slot: Slot, schedule: Schedule, campaign: Campaign, error: ProvingError) -> None:
    """The draft is cancelled. For want of a role, the schedule stops."""
    lacks_role = isinstance(error, RoleError)
    if not _settle(slot, Slot.Outcome.SKIPPED if lacks_role else Slot.Outcome.REFUSED, error.reason):
        return
    _drop(campaign, error.reason)
    locked = Schedule.objects.select_for_update().get(pk=schedule.pk)
    if lacks_role and locked.state == Schedule.State.ACTIVE:
        stop(locked, error.reason)
    elif not lacks_role:
        _notify_refused(schedule, slot.at, error.reason)


def _drop(campaign: Campaign, reason: str) -> None:
    """A draft that will not start is cancelled; in the caller's transaction."""
    draft = Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.DRAFT)
    if draft.update(state=Campaign.State.CANCELLED, state_reason=reason):
        campaign_end.close_campaign(campaign.pk)
        audit(None, "campaign.cancel", campaign, after={"id": str(campaign.pk)})


def stop(schedule: Schedule, reason: str) -> None:
    """Start nothing more until a user resumes it; in the caller's transaction, which holds the row."""
    schedule.state, schedule.state_reason, schedule.next_at = Schedule.State.STOPPED, reason, None
    schedule.save(update_fields=["state", "state_reason", "next_at"])
    audit(None, "schedule.stop", schedule, after={"id": str(schedule.pk), "reason": reason})
    _notify("schedule.stopped", schedule, "has stopped", reason)


def _notify_missed(schedule: Schedule, missed: list[Slot]) -> None:
    """Once, however many there are."""
    zone = times.read(schedule.when, schedule.time_zone).zone
    last = f"{missed[-1].at.astimezone(zone):%Y-%m-%d %H:%M %Z}"
    count = f"{len(missed)} times, the last one at {last}" if len(missed) > 1 else last
    _notify("schedule.missed", schedule, f"missed {count}", missed[-1].reason)


def _notify_refused(schedule: Schedule, at: datetime, reason: str) -> None:
    zone = times.read(schedule.when, schedule.time_zone).zone
    _notify("schedule.missed", schedule, f"did not start at {at.astimezone(zone):%Y-%m-%d %H:%M %Z}", reason)


def _notify(kind: str, schedule: Schedule, became: str, reason: str) -> None:
    payload = {
        "text": reason,
        "path": reverse("schedule_detail", args=[schedule.pk]),
        "schedule": str(schedule.pk),
        "host": schedule.campaign.host.name,
        "reason": reason,
    }
    notify(kind, f"{schedule} {became}", payload, about=[schedule])
