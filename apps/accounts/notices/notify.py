"""Notifications about an event: `notify` records a delivery for each subscribed channel, `deliver` sends it.

A delivery is written in the transaction of the event, so that none is sent for a rolled-back event, and none is lost.
It is sent at least once: a worker that dies while it sends leaves the try to the next, with the same id.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.accounts.models import USER_KINDS, Channel, Delivery, Walled, hidden_from
from apps.accounts.models.walls import any_hidden, everything
from apps.accounts.notices.events import KINDS
from apps.accounts.notices.kinds import CHANNELS
from apps.infrastructure import waking
from common.errors import ProvingError

log = logging.getLogger(__name__)

# Longer than a try can take: only a worker that died leaves one behind.
CLAIM_S = 60
FIRST_RETRY_S = 30.0
TRIES = 12  # the last one 17 hours after the first
WORK_S = 20.0  # for one channel at a time; the rest is the next task's


@transaction.atomic
def notify(kind: str, subject: str, payload: dict[str, Any], *, about: Sequence[Walled]) -> None:
    """Record a delivery for each channel subscribed to `kind`; call it inside the transaction of the event.

    `payload`: "text", some sentences for people; "path", of the page that shows it; and whatever a program may want.
    `about`: the objects that these name. If a private team owns one, only mail to users who may see it is sent.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of event; accepted: {', '.join(KINDS)}")
    subscribed = Channel.objects.filter(active=True, owner__is_active=True, events__contains=[kind])
    with everything():
        is_private = any_hidden(about, hidden_from(None))
        for channel in subscribed.select_related("owner"):
            if not is_private or _may_name(channel, about):
                write(channel, kind, subject, payload)


def _may_name(channel: Channel, about: Sequence[Walled]) -> bool:
    """Whether a channel may name objects of a private team. Who reads a chat or a webhook is unknown."""
    return channel.kind in USER_KINDS and not any_hidden(about, channel.owner.hidden_teams)


def write(channel: Channel, kind: str, subject: str, payload: dict[str, Any]) -> Delivery:
    """A delivery that is due at once, in the caller's transaction."""
    line = " ".join(subject.split())[:200]
    delivery = Delivery.objects.create(channel=channel, kind=kind, subject=line, payload=payload)
    wake(channel)
    return delivery


def wake(channel: Channel) -> None:
    """Have a worker look after a channel, after the commit; else the beat, or `manage.py tick`, does."""
    pk = str(channel.pk)
    transaction.on_commit(lambda: waking.send("accounts.deliver", pk))


def channels_due(now: datetime) -> list[int]:
    """Channels for which something is to be sent."""
    return sorted(set(Delivery.objects.due(now).order_by().values_list("channel_id", flat=True)))


def deliver(channel_id: int) -> None:
    """Send what is due for a channel, until it fails: then the others of its deliveries wait as long as that one."""
    until = time.monotonic() + WORK_S
    while time.monotonic() < until:
        delivery = _claim(channel_id)
        if delivery is None or not _try(delivery):
            return


def _claim(channel_id: int) -> Delivery | None:
    """The next delivery of a channel, ours until CLAIM_S from now; None where there is none that others have not."""
    now = timezone.now()
    due = Delivery.objects.due(now).filter(channel=channel_id)
    for delivery in due.select_related("channel")[:20]:
        mine = delivery.mine().filter(next_try_at__lte=now)
        if mine.update(attempts=F("attempts") + 1, next_try_at=now + timedelta(seconds=CLAIM_S)):
            delivery.attempts += 1
            return delivery
    return None


def _try(delivery: Delivery) -> bool:
    status, error = None, ""
    try:
        status = CHANNELS[delivery.channel.kind].send(delivery)
    except ProvingError as refused:
        error = str(refused)
    except Exception as unexpected:
        log.exception("delivery %s: it could not be sent", delivery.pk)
        error = f"it could not be sent: {type(unexpected).__name__}; the log of the worker has the cause"
    if status is not None and not 200 <= status < 300:
        error = f"answered {status}" + (", and redirects are not followed" if 300 <= status < 400 else "")
    if error:
        _put_off(delivery, status, error)
        return False
    sent = {"state": Delivery.State.SENT, "next_try_at": None, "ended_at": timezone.now()}
    return bool(delivery.mine().update(status=status, error="", **sent))


def _put_off(delivery: Delivery, status: int | None, error: str) -> None:
    """Later, and with it all that waits for the same receiver; given up after the last try."""
    now = timezone.now()
    if delivery.attempts >= TRIES:
        gone = {"state": Delivery.State.FAILED, "next_try_at": None, "ended_at": now}
        delivery.mine().update(status=status, error=error, **gone)
        return
    later = now + timedelta(seconds=backoff(delivery.attempts))
    delivery.mine().update(status=status, error=error, next_try_at=later)
    Delivery.objects.due(now).filter(channel=delivery.channel_id).order_by().update(next_try_at=later)


def backoff(attempts: int) -> float:
    """Seconds until the next try: 30 after the first, then twice as many each time, give or take a tenth."""
    return FIRST_RETRY_S * 2.0 ** (attempts - 1) * random.uniform(0.9, 1.1)  # noqa: S311 - spreads, hides nothing
