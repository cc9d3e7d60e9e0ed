"""One run per physical machine: acquire, release. Expiry only tells that nobody supervises; the machine stays taken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.hosts.models import Lease
from common.errors import HostError

LEAP = 1_000_000  # runs of another server, or of ours before its database was lost


def acquire(machine_id: str, run: UUID, seconds: float) -> int | None:
    """The epoch under which `run` has the machine, newly or still; None while another run has it."""
    expires_at = timezone.now() + timedelta(seconds=seconds)
    ours = Lease.objects.filter(machine_id=machine_id, run=run)
    free = Lease.objects.filter(machine_id=machine_id, run=None)
    taken = {"run": run, "epoch": F("epoch") + 1, "expires_at": expires_at}
    if not ours.update(expires_at=expires_at) and not free.update(**taken):
        Lease.objects.get_or_create(machine_id=machine_id)  # one that nobody ever had
        free.update(**taken)
    return ours.values_list("epoch", flat=True).first()


def acquire_all(runs: Mapping[str, UUID], seconds: float) -> bool:
    """Whether each of these machines is now held by its job: all of them, or none anew. Always taken in one order, so
    that two that want the same machines never wait for each other. One alone needs no transaction."""
    if len(runs) == 1:
        return all(acquire(machine, run, seconds) is not None for machine, run in runs.items())
    with transaction.atomic():
        got = all(acquire(machine, runs[machine], seconds) for machine in sorted(runs))
        transaction.set_rollback(not got)
    return got


def raise_epoch(machine_id: str, run: UUID, above: int) -> int:
    """The epoch to submit `run` under: above what the machine has seen, be it from a server whose database is gone.
    HostError for an epoch that no runs can have led to: it would leave no higher one for those to come."""
    held = Lease.objects.filter(machine_id=machine_id, run=run)
    highest = held.values_list("epoch", flat=True).get() + LEAP
    if above > highest:
        hint = "remove the file epoch in the host's spool directory if no run is active there"
        raise HostError("epoch", f"the host reports an epoch of {above}; at most {highest} is possible", hint=hint)
    held.filter(epoch__lte=above).update(epoch=above + 1)
    return held.values_list("epoch", flat=True).get()


def release(machine_id: str, run: UUID) -> bool:
    """Give the machine back; False when `run` did not have it."""
    held = Lease.objects.filter(machine_id=machine_id, run=run)
    return bool(held.update(run=None, expires_at=None))
