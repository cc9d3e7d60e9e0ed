"""The claim that a tick has on its run: taken for seconds, renewed, lost to whoever takes over."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from django.utils import timezone

from apps.campaigns import queue
from apps.campaigns.models import Campaign, Run
from apps.errors import ProvingError

log = logging.getLogger(__name__)

FOLLOW_S = 25.0
# Renewed while a tick is alive; what a killed worker held is taken over this long after its last sign of life.
CLAIM_S = 15.0
LEASE_S = 120.0
BUSY_RETRY_S = 5.0
UNREACHABLE_RETRY_S = 10.0
RESTART_RETRY_S = 3.0

stopping = threading.Event()  # this process ends: ticks let go of their runs, which others take up at once


class ClaimLostError(Exception):
    """Somebody else took over this run: we were asleep for too long."""


def begin(run: Run) -> bool:
    """QUEUED -> SUBMITTING, committed before the agent hears of the run; False when it was cancelled meanwhile, or its
    campaign paused."""
    queued = run.mine().filter(state=Run.State.QUEUED).exclude(campaign__state=Campaign.State.PAUSED)
    begun = queued.update(state=Run.State.SUBMITTING, started_at=timezone.now())
    run.refresh_from_db(fields=["state", "outcome", "started_at"])
    return bool(begun)


def keep(run: Run) -> bool:
    """Whether the run is to be cancelled. Renews our claim when a third has passed; ClaimLostError when it is not ours
    any more."""
    seen = run.mine().values_list("claimed_until", "cancel_requested_at").first()
    if seen is None:
        raise ClaimLostError
    now = timezone.now()
    if seen[0] is None or seen[0] < now + timedelta(seconds=CLAIM_S * 2 / 3):
        run.mine().update(claimed_until=now + timedelta(seconds=CLAIM_S))
    return seen[1] is not None


def hold(run: Run) -> None:
    """In a transaction that ends the run: its campaign's row and then its own, in the order in which whoever cancels or
    pauses takes them. ClaimLostError when our claim is not ours any more."""
    Campaign.objects.select_for_update().get(pk=run.campaign_id)
    if run.mine().select_for_update().first() is None:
        raise ClaimLostError


def wait(run: Run, error: ProvingError, seconds: float) -> None:
    """Try again later, and let the run's page say what it waits for."""
    log.warning("run %s: %s", run.pk, error)
    run.mine().update(error=error.as_dict())
    queue.rearm(run, seconds)
