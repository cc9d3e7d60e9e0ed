"""The claim that a tick has on its run: it lasts seconds, is renewed, and is lost to a worker that takes over.

A tick may wait long for its host, so a thread renews the claims of all ticks of this process together: they expire
if the process dies or sleeps, not if a host is slow.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from uuid import UUID

from django.db import Error, connection
from django.utils import timezone

from apps.campaigns.execution import queue
from apps.campaigns.models import Campaign, Run
from common.errors import ProvingError

log = logging.getLogger(__name__)

# Of one tick. A tick costs 6 ms of CPU beside its reads. Runs beyond the threads of all dispatchers wait for its end.
FOLLOW_S = 60.0
# Seconds of a claim, renewed while a tick is alive. After a worker dies, another one takes over when the claim expires.
CLAIM_S = 15.0
TICK_S = 600.0  # a tick that takes longer is stuck, and its claim is left to pass
LEASE_S = 120.0
BUSY_RETRY_S = 5.0
UNREACHABLE_RETRY_S = 10.0
RESTART_RETRY_S = 3.0

stopping = threading.Event()  # this process ends: ticks release their runs, and other workers take them up at once
_held: dict[UUID | None, float] = {}  # claim -> until when it is renewed, by the monotonic clock
_lock = threading.Lock()


class ClaimLostError(Exception):
    """Another worker took over this run, because this process was suspended for too long."""


@contextmanager
def held(run: Run) -> Iterator[None]:
    """Renew the run's claim during the `with` block."""
    claim = run.claim
    _renewer()
    with _lock:
        _held[claim] = time.monotonic() + TICK_S
    try:
        yield
    finally:
        with _lock:
            del _held[claim]


@cache
def _renewer() -> threading.Thread:
    thread = threading.Thread(target=_renew, name="claims", daemon=True)
    thread.start()
    return thread


def _renew() -> None:
    while True:
        time.sleep(CLAIM_S / 3)
        try:
            renew()
        except Error as error:
            log.warning("leases not renewed: %s", error)
        finally:
            connection.close()


def renew() -> None:
    """Renew all claims of this process, except those that were released meanwhile."""
    now = time.monotonic()
    with _lock:
        alive = [claim for claim, until in _held.items() if now < until]
    if alive:
        ours = Run.objects.filter(claim__in=alive, claimed_until__isnull=False)
        ours.update(claimed_until=timezone.now() + timedelta(seconds=CLAIM_S))


def begin(run: Run) -> bool:
    """Set QUEUED to SUBMITTING, committed before the agent is called.

    False if the run was cancelled or its campaign paused meanwhile; ClaimLostError if another worker has claimed it."""
    queued = run.mine().filter(state=Run.State.QUEUED).exclude(campaign__state=Campaign.State.PAUSED)
    now = timezone.now()
    if queued.update(state=Run.State.SUBMITTING, started_at=now):
        run.state, run.started_at = Run.State.SUBMITTING, now
        return True
    if not run.mine().exists():
        raise ClaimLostError
    run.refresh_from_db(fields=["state", "outcome", "started_at"])
    return False


def is_cancelled(run: Run) -> bool:
    """Whether a user has cancelled the run. ClaimLostError if another worker has claimed it."""
    row = run.mine().values_list("cancel_requested_at").first()
    if row is None:
        raise ClaimLostError
    return row[0] is not None


def hold_row(run: Run) -> None:
    """Lock the run's row; in a transaction. ClaimLostError if another worker has claimed it."""
    if run.mine().select_for_update().values_list("pk").first() is None:
        raise ClaimLostError


def hold(run: Run) -> None:
    """Lock the campaign's row and then the run's, in the transaction that ends the run. A cancel and a pause take them
    in the same order. ClaimLostError if another worker has claimed the run."""
    Campaign.objects.select_for_update().order_by().values_list("pk").get(pk=run.campaign_id)
    hold_row(run)


def wait(run: Run, error: ProvingError, seconds: float, attempts: int) -> None:
    """Try again later, and show `error` on the run's page meanwhile, with the number of failed attempts to process the
    run, as in `failed_attempts`."""
    log.warning("run %s: %s", run.pk, error)
    counted = {"attempts": attempts} if attempts else {}
    queue.rearm(run, seconds, error={**error.as_dict(), **counted})


def failed_attempts(run: Run) -> int:
    """How often in a row an unexpected error has prevented the server from processing the run; see dispatch.py."""
    count: int = (run.error or {}).get("attempts", 0)
    return count
