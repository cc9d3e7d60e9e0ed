"""Who is told of what, and where: channels, their trial, and another try of a delivery that failed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Channel, Delivery, Role, User
from apps.accounts.notices import mail, notify, webhook
from apps.accounts.notices.events import KINDS, TEST
from apps.accounts.operation import vault
from apps.accounts.services import audit, require, save
from common.errors import PlanError, RoleError


def create(*, by: User, name: str, kind: str, address: str, events: Iterable[str]) -> tuple[Channel, str]:
    """A channel of `by`, and the secret of a webhook, shown this once; PlanError names the field that is wrong."""
    _may(kind, by, by)
    channel = Channel(name=name.strip(), owner=by, kind=kind, address=address.strip(), events=list(events))
    _check(channel)
    with transaction.atomic():
        secret = _new_secret(channel)
        save(channel)
        audit(by, "channel.create", channel, after=_told(channel))
    return channel, secret


def change(
    channel: Channel,
    *,
    by: User,
    name: str | None = None,
    address: str | None = None,
    events: Iterable[str] | None = None,
    active: bool | None = None,
) -> None:
    """What is given becomes so. What still waits for a channel that is switched off is given up."""
    _may(channel.kind, channel.owner, by)
    before = _told(channel)
    channel.name = channel.name if name is None else name.strip()
    channel.address = channel.address if address is None else address.strip()
    channel.events = channel.events if events is None else list(events)
    channel.active = channel.active if active is None else active
    _check(channel, again=channel.address != before["address"])
    with transaction.atomic():
        save(channel)
        if not channel.active:
            _give_up(channel)
        audit(by, "channel.change", channel, before=before, after=_told(channel))


@transaction.atomic
def renew_secret(channel: Channel, *, by: User) -> str:
    """Another secret, shown this once; what is sent from now on is signed with it."""
    _may(channel.kind, channel.owner, by)
    if channel.kind != Channel.Kind.WEBHOOK:
        raise PlanError("kind", f"{channel} is {channel.kind}", hint="only a webhook has a secret")
    secret = _new_secret(channel)
    channel.save(update_fields=["secret_encrypted"])
    audit(by, "channel.renew_secret", channel)
    return secret


@transaction.atomic
def send_test(channel: Channel, *, by: User) -> Delivery:
    """A delivery that says that it is a test, whatever the channel tells of."""
    _may(channel.kind, channel.owner, by)
    if not channel.active:
        raise PlanError("active", f"{channel} is switched off", hint="switch it on first")
    text = f"{by} sent this test of the channel {channel}. Nothing has happened."
    audit(by, "channel.test", channel)
    payload = {"text": text, "path": reverse("channel_detail", args=[channel.pk])}
    return notify.write(channel, TEST, f"Test of {channel}", payload)


@transaction.atomic
def retry(delivery: Delivery, *, by: User) -> None:
    """Send at once what has failed, or waits for its next try; a failed one has all of its tries again."""
    channel = delivery.channel
    _may(channel.kind, channel.owner, by)
    if not channel.active:
        raise PlanError("active", f"{channel} is switched off", hint="switch it on first")
    again = Delivery.objects.filter(pk=delivery.pk).exclude(state=Delivery.State.SENT)
    if not again.update(state=Delivery.State.PENDING, attempts=0, next_try_at=timezone.now(), ended_at=None):
        raise PlanError("state", f"{delivery} was sent", hint="nothing is left to send")
    audit(by, "delivery.retry", delivery, after={"id": str(delivery.pk)})
    notify.wake(channel)


def _may(kind: str, owner: User, by: User) -> None:
    """Mail of one's own is everybody's; a webhook makes this server call another, which is an admin's to allow."""
    if kind == Channel.Kind.WEBHOOK:
        require(by, Role.ADMIN, "set up a webhook")
    elif owner.pk != by.pk and not by.may(Role.ADMIN):
        raise RoleError("channel", f"this is a channel of {owner}", hint="ask its owner, or an admin")


def _check(channel: Channel, *, again: bool = True) -> None:
    unknown = [kind for kind in channel.events if kind not in KINDS]
    if unknown:
        raise PlanError("events", f"{unknown[0]!r} is no kind of event", hint=f"known are {', '.join(KINDS)}")
    if channel.kind == Channel.Kind.WEBHOOK and again:
        webhook.check(channel.address)
    elif channel.kind == Channel.Kind.MAIL and again:
        mail.check()
        try:
            validate_email(channel.address)
        except ValidationError as error:
            hint = "give one such as ada@example.org"
            raise PlanError("address", f"{channel.address!r} is no mail address", hint=hint) from error


def _new_secret(channel: Channel) -> str:
    if channel.kind != Channel.Kind.WEBHOOK:
        return ""
    secret = "whs_" + secrets.token_urlsafe(32)
    channel.secret_encrypted = vault.encrypt(secret)
    return secret


def _give_up(channel: Channel) -> None:
    waiting = channel.deliveries.filter(state=Delivery.State.PENDING)
    gone = {"state": Delivery.State.FAILED, "next_try_at": None, "ended_at": timezone.now()}
    waiting.update(error="the channel was switched off", **gone)


def _told(channel: Channel) -> dict[str, object]:
    """For the audit log, which everybody may read: the path of a webhook may be a secret."""
    address = channel.address
    if channel.kind == Channel.Kind.WEBHOOK:
        address = "/".join(address.split("/")[:3])
    told = {"kind": channel.kind, "address": address, "events": channel.events, "active": channel.active}
    return {**told, "owner": str(channel.owner)}
