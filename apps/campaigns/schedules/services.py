"""What a user does with a schedule: create, change, pause, resume and delete it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns import services
from apps.campaigns.design.before_start import previews
from apps.campaigns.models import Campaign, Schedule
from apps.campaigns.schedules import times
from apps.hosts.usage import windows
from common.errors import PlanError

LEAST_LATE_MIN, MOST_LATE_MIN = 1, 1440
CHANGED = ("name", "when", "time_zone", "windows", "late_by_min")


@transaction.atomic
def create_schedule(
    campaign: Campaign,
    *,
    by: User,
    name: str,
    when: str,
    time_zone: str = "",
    windows: list[dict[str, Any]] | None = None,
    late_by_min: int = 30,
    now: datetime | None = None,
) -> Schedule:
    """Repeat a campaign from now on, with the permissions of `by`. PlanError names the field that is wrong.

    Without a time zone it has that of the campaign's host.
    """
    require(by, Role.OPERATOR, "create schedule", on=campaign)
    if campaign.kind != Campaign.Kind.COMPARISON:
        hint = "choose a campaign that compares levels"
        raise PlanError("campaign", f"{campaign} is not a comparison and cannot be repeated", hint=hint)
    zone = time_zone.strip() or campaign.host.time_zone
    fields = {"name": name.strip(), "when": when, "time_zone": zone, "windows": windows or []}
    schedule = Schedule(campaign=campaign, owner=by, late_by_min=late_by_min, **fields)
    _arm(schedule, by, now or timezone.now())
    audit(by, "schedule.create", schedule, after=_audited(schedule))
    return schedule


@transaction.atomic
def change_schedule(schedule: Schedule, *, by: User, now: datetime | None = None, **changes: Any) -> Schedule:
    """Change some of the fields CHANGED. Whoever changes a schedule owns it from then on."""
    require(by, Role.OPERATOR, "change schedule", on=schedule)
    locked = _locked(schedule)
    before = _audited(locked)
    for field, value in changes.items():
        setattr(locked, field, value.strip() if isinstance(value, str) else value)
    locked.owner = by
    _arm(locked, by, now or timezone.now())
    audit(by, "schedule.change", locked, before=before, after=_audited(locked))
    schedule.refresh_from_db()
    return schedule


@transaction.atomic
def pause_schedule(schedule: Schedule, *, by: User) -> None:
    """Start nothing until it is resumed. A campaign of it that runs goes on."""
    require(by, Role.OPERATOR, "pause schedule", on=schedule)
    _halt(schedule, by, "pause", Schedule.State.PAUSED, [Schedule.State.ACTIVE])


@transaction.atomic
def resume_schedule(schedule: Schedule, *, by: User, now: datetime | None = None) -> None:
    """Start campaigns again, from its next time on. Whoever resumes a schedule owns it from then on."""
    require(by, Role.OPERATOR, "resume schedule", on=schedule)
    locked = _locked(schedule)
    if locked.state == Schedule.State.ACTIVE:
        raise PlanError("state", f"{locked} is active", hint="only paused or stopped schedules can be resumed")
    before = {"state": locked.state, "owner": locked.owner.username, "reason": locked.state_reason}
    locked.owner, locked.state, locked.state_reason = by, Schedule.State.ACTIVE, ""
    _arm(locked, by, now or timezone.now())
    audit(by, "schedule.resume", locked, before=before, after=_audited(locked))
    schedule.refresh_from_db()


@transaction.atomic
def delete_schedule(schedule: Schedule, *, by: User) -> None:
    """Never start anything again. Its history and its campaigns remain."""
    require(by, Role.OPERATOR, "delete schedule", on=schedule)
    _halt(schedule, by, "delete", Schedule.State.DELETED, [Schedule.State.ACTIVE, *RESUMED])


RESUMED = [Schedule.State.PAUSED, Schedule.State.STOPPED]


def _halt(schedule: Schedule, by: User, action: str, state: str, allowed: list[Schedule.State]) -> None:
    locked = _locked(schedule)
    if locked.state not in allowed:
        hint = f"only {' or '.join(allowed)} schedules can be {action}d"
        raise PlanError("state", f"{locked} is {locked.state}", hint=hint)
    before = {"state": locked.state}
    locked.state, locked.next_at = state, None
    locked.save(update_fields=["state", "next_at"])
    audit(by, f"schedule.{action}", locked, before=before, after=_about(locked))
    schedule.refresh_from_db()


def _locked(schedule: Schedule) -> Schedule:
    """The row, locked. PlanError where it was deleted."""
    rows = Schedule.objects.select_for_update(of=("self",)).select_related("campaign__host", "owner")
    locked = rows.get(pk=schedule.pk)
    if locked.state == Schedule.State.DELETED:
        raise PlanError("state", f"{locked} was deleted", hint="create a new schedule from its campaign")
    return locked


def _arm(schedule: Schedule, by: User, now: datetime) -> None:
    """Check and save it; an active one gets its next time."""
    calendar = times.read_entered(schedule.when, schedule.time_zone)
    windows.read(schedule.windows, schedule.time_zone)
    if not LEAST_LATE_MIN <= schedule.late_by_min <= MOST_LATE_MIN:
        message = f"{schedule.late_by_min} is not a number of minutes from {LEAST_LATE_MIN} to {MOST_LATE_MIN:,}"
        raise PlanError("late_by_min", message)
    services.check_permission(previews.preview(schedule.campaign).runs, by)
    schedule.when = calendar.when
    schedule.next_at = _following(schedule, calendar, now) if schedule.state == Schedule.State.ACTIVE else None
    save(schedule)


def _following(schedule: Schedule, calendar: times.Times, now: datetime) -> datetime:
    """The next time, later than every slot that was decided: a clock may have been put back."""
    decided = schedule.slots.values_list("at", flat=True).first() if not schedule._state.adding else None
    return next(calendar.after(max(now, decided) if decided else now))


def _audited(schedule: Schedule) -> dict[str, Any]:
    return _about(schedule) | {name: getattr(schedule, name) for name in CHANGED} | {"owner": schedule.owner.username}


def _about(schedule: Schedule) -> dict[str, Any]:
    return {"id": str(schedule.pk), "campaign": str(schedule.campaign_id)}
