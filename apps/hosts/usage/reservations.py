"""Reservations: no run starts on a machine until the reservation ends. Active runs continue."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.hosts.models import Host, Reservation
from common.errors import PlanError

MOST_DAYS = 30


def in_force(host: Host, now: datetime) -> Reservation | None:
    """Return the reservation that ends last. A machine with two names is reserved under both."""
    return in_force_on([host], now).get(host.pk)


def in_force_on(hosts: Collection[Host], now: datetime) -> dict[int, Reservation]:
    """{host: its reservation `in_force`}, of those that are reserved. One query."""
    machines = {host.machine_id for host in hosts} - {""}
    same = Q(host__in=hosts) | Q(host__machine_id__in=machines)
    known = Reservation.objects.filter(same, ended_at=None, until__gt=now).select_related("by", "host")
    last = {each.host.machine_id or each.host_id: each for each in known.order_by("until")}
    return {host.pk: last[machine] for host in hosts if (machine := host.machine_id or host.pk) in last}


def _in_force(host: Host, now: datetime) -> QuerySet[Reservation]:
    same = Q(host=host) | (Q(host__machine_id=host.machine_id) & ~Q(host__machine_id=""))
    return Reservation.objects.filter(same, ended_at=None, until__gt=now)


@transaction.atomic
def reserve(host: Host, until: datetime, reason: str, *, by: User) -> Reservation:
    """Reserve the host from now on. The user's own reservation is replaced; PlanError while another user has one."""
    require(by, Role.OPERATOR, "reserve host", on=host)
    Host.objects.select_for_update().get(pk=host.pk)  # a run that starts takes the same lock
    now = timezone.now()
    _check_times(now, until)
    earlier = in_force(host, now)
    if earlier and earlier.by_id != by.pk:
        hint = f"ask {earlier.by} or an admin to give it up"
        raise PlanError("host", f"{earlier}: {earlier.reason}", hint=hint)
    _in_force(host, now).update(ended_at=now, ended_by=by)
    made = Reservation(host=host, by=by, reason=reason.strip(), until=until)
    save(made)
    before = {"until": earlier.until.isoformat(), "reason": earlier.reason} if earlier else None
    audit(by, "host.reserve", host, before=before, after={"until": until.isoformat(), "reason": made.reason})
    return made


def _check_times(now: datetime, until: datetime) -> None:
    if until <= now:
        raise PlanError("until", f"{until:%Y-%m-%d %H:%M} UTC is in the past", hint="choose a time in the future")
    if until > now + timedelta(days=MOST_DAYS):
        hint = f"at most {MOST_DAYS} days; you can renew it before it ends"
        raise PlanError("until", f"{until:%Y-%m-%d %H:%M} UTC is too far ahead", hint=hint)


@transaction.atomic
def give_up(host: Host, *, by: User) -> Reservation:
    """End a reservation early. Only its user and admins may do this. Queued runs can start again."""
    require(by, Role.OPERATOR, "give up reservation", on=host)
    now = timezone.now()
    reservation = in_force(host, now)
    if reservation is None:
        raise PlanError("host", f"{host} is not reserved")
    if reservation.by_id != by.pk:
        require(by, Role.ADMIN, f"give up the reservation of {reservation.by}", on=host)
    _in_force(host, now).update(ended_at=now, ended_by=by)
    before = {"by": str(reservation.by), "until": reservation.until.isoformat(), "reason": reservation.reason}
    audit(by, "host.give_up", host, before=before)
    reservation.refresh_from_db()
    return reservation
