"""One run per machine: acquire and release leases. An expired lease only means that no worker supervises the run;
the machine remains taken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.hosts.models import Lease
from common.errors import HostError

LEAP = 1_000_000  # runs of another server, or of this one before its database was lost


def acquire(machine_id: str, run: UUID, seconds: float) -> bool:
    """Acquire the machine for `run`, which may hold it already. False while another run has it."""
    expires_at = timezone.now() + timedelta(seconds=seconds)
    ours = Lease.objects.filter(machine_id=machine_id, run=run)
    free = Lease.objects.filter(machine_id=machine_id, run=None)
    taken = {"run": run, "epoch": F("epoch") + 1, "expires_at": expires_at}
    if ours.update(expires_at=expires_at) or free.update(**taken):  # most ticks continue a run
        return True
    Lease.objects.get_or_create(machine_id=machine_id)  # a machine without a row
    return bool(free.update(**taken)) or ours.exists()


def acquire_all(runs: Mapping[str, UUID], seconds: float) -> bool:
    """Acquire all of these machines, or none. Returns whether each is held by its job.

    They are always acquired in the same order, so two runs never wait for each other. A single one needs no
    transaction."""
    if len(runs) == 1:
        return all(acquire(machine, run, seconds) for machine, run in runs.items())
    with transaction.atomic():
        got = all(acquire(machine, runs[machine], seconds) for machine in sorted(runs))
        transaction.set_rollback(not got)
    return got


def raise_epoch(machine_id: str, run: UUID, above: int) -> int:
    """Return the epoch for submitting `run`: above every epoch that the machine has seen, even from a server whose
    database is lost.

    HostError for an implausibly high epoch, which would leave none for later runs."""
    held = Lease.objects.filter(machine_id=machine_id, run=run)
    epoch: int = held.values_list("epoch", flat=True).get()
    if above > epoch + LEAP:
        message = f"the host reports an epoch of {above}; at most {epoch + LEAP} is possible"
        hint = "remove the file epoch in the host's spool directory if no run is active there"
        raise HostError("epoch", message, hint=hint)
    if above < epoch:
        return epoch
    held.filter(epoch__lte=above).update(epoch=above + 1)
    return held.values_list("epoch", flat=True).get()


def release(machine_id: str, run: UUID) -> bool:
    """Release the machine. Returns False if `run` did not have it."""
    held = Lease.objects.filter(machine_id=machine_id, run=run)
    return bool(held.update(run=None, expires_at=None))
