"""Who is told of what, and where: channels, their trial, and another try of a delivery that failed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Channel, Delivery, Role, User
from apps.accounts.notices import notify
from apps.accounts.notices.events import KINDS, TEST
from apps.accounts.notices.kinds import CHANNELS
from apps.accounts.notices.kinds.base import Field
from apps.accounts.services import audit, require, save
from apps.infrastructure import vault
from common.errors import PlanError, RoleError

# Mail addresses are not confirmed. Without limits, a user could flood the address of another user.
MOST_OWN = 20
MOST_TESTS = 10  # of a channel in an hour


def create(
    *, by: User, name: str, kind: str, address: str, events: Iterable[str], details: Mapping[str, str] | None = None
) -> tuple[Channel, str]:
    """A channel of `by`, and the secret of a webhook, shown this once; PlanError names the field that is wrong.

    `details`: the values of the fields that the kind has besides the address, with its secret.
    """
    _may(kind, by, by)
    if not CHANNELS[kind].for_admins and Channel.objects.filter(owner=by, kind=kind).count() >= MOST_OWN:
        raise PlanError("kind", f"you have {MOST_OWN} channels of this kind", hint="change one of them")
    channel = Channel(name=name.strip(), owner=by, kind=kind, address=address.strip(), events=list(events))
    _set_details(channel, details or {})
    _check(channel)
    with transaction.atomic():
        secret = _new_secret(channel)
        save(channel)
        audit(by, "channel.create", channel, after=_recorded(channel))
    return channel, secret


def change(
    channel: Channel,
    *,
    by: User,
    name: str | None = None,
    address: str | None = None,
    events: Iterable[str] | None = None,
    active: bool | None = None,
    details: Mapping[str, str] | None = None,
) -> None:
    """Change what is given; of `details`, those that it names. Pending deliveries of a switched-off channel fail."""
    _may(channel.kind, channel.owner, by)
    before, destination = _recorded(channel), (channel.address, channel.details)
    channel.name = channel.name if name is None else name.strip()
    channel.address = channel.address if address is None else address.strip()
    channel.events = channel.events if events is None else list(events)
    channel.active = channel.active if active is None else active
    _require_secret_for_new_address(channel, destination[0], details or {})
    _set_details(channel, details or {})
    _check(channel, again=(channel.address, channel.details) != destination)
    with transaction.atomic():
        save(channel)
        if not channel.active:
            _give_up(channel)
        audit(by, "channel.change", channel, before=before, after=_recorded(channel))


@transaction.atomic
def renew_secret(channel: Channel, *, by: User) -> str:
    """Another secret, shown this once; what is sent from now on is signed with it."""
    _may(channel.kind, channel.owner, by)
    if not CHANNELS[channel.kind].signed:
        signed = ", ".join(name for name, kind in CHANNELS.items() if kind.signed)
        raise PlanError("kind", f"{channel.kind} has no secret", hint=f"channels with a secret: {signed}")
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
    recent = channel.deliveries.filter(kind=TEST, created_at__gt=timezone.now() - timedelta(hours=1))
    if recent.count() >= MOST_TESTS:
        raise PlanError("channel", f"{channel} was tested {MOST_TESTS} times within an hour", hint="try again later")
    text = f"{by} sent this test of the channel {channel}. There is no event."
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
        raise PlanError("state", f"{delivery} was already sent", hint="there is nothing to send")
    audit(by, "delivery.retry", delivery, after={"id": str(delivery.pk)})
    notify.wake(channel)


def _may(kind: str, owner: User, by: User) -> None:
    """Mail of one's own is everybody's; what makes this server call another is an admin's to allow."""
    if CHANNELS[kind].for_admins:
        require(by, Role.ADMIN, f"set up a {CHANNELS[kind].noun}")
    elif owner.pk != by.pk and not by.may(Role.ADMIN):
        raise RoleError("channel", f"this channel belongs to {owner}", hint="ask its owner, or an admin")


def _set_details(channel: Channel, given: Mapping[str, str]) -> None:
    """Set the given fields, encrypt the secret. PlanError if one is unknown, or a required field has no value."""
    known = {field.name: field for field in CHANNELS[channel.kind].fields if field.name != "address"}
    for name, value in given.items():
        if name not in known:
            accepted = ", ".join(known) or "none"
            raise PlanError(f"details.{name}", f"{channel.kind} has no such field", hint=f"accepted: {accepted}")
        if known[name].secret:
            channel.secret_encrypted = _encrypt(known[name], value.strip())
        else:
            channel.details = {**channel.details, name: value.strip()}
    for name, field in known.items():
        if field.required and not (channel.secret_encrypted if field.secret else channel.details.get(name)):
            raise PlanError(f"details.{name}", f"{field.label} is missing", hint=field.help)


def _encrypt(field: Field, secret: str) -> str:
    """An entered secret as it is stored. PlanError if no HTTP header can hold it; the message doesn't show it."""
    if not all("!" <= character <= "~" for character in secret):
        hint = "copy it again; accepted: ASCII without spaces and line breaks"
        raise PlanError(f"details.{field.name}", f"{field.label} has characters that cannot be sent", hint=hint)
    return vault.encrypt(secret) if secret else ""


def _require_secret_for_new_address(channel: Channel, before: str, given: Mapping[str, str]) -> None:
    """Who may change a channel does not know its secret, and must not have it sent to a server of their own."""
    field = CHANNELS[channel.kind].secret_field
    if field and channel.secret_encrypted and channel.address != before and field.name not in given:
        hint = f"enter {field.label.lower()} again, because the address changes"
        raise PlanError(
            f"details.{field.name}", "the stored secret is sent only to the address it was entered for", hint=hint
        )


def _check(channel: Channel, *, again: bool = True) -> None:
    unknown = [kind for kind in channel.events if kind not in KINDS]
    if unknown:
        raise PlanError("events", f"{unknown[0]!r} is not a kind of event", hint=f"accepted: {', '.join(KINDS)}")
    if again:
        CHANNELS[channel.kind].check({"address": channel.address, **channel.details})


def _new_secret(channel: Channel) -> str:
    if not CHANNELS[channel.kind].signed:
        return ""
    secret = "whs_" + secrets.token_urlsafe(32)
    channel.secret_encrypted = vault.encrypt(secret)
    return secret


def _give_up(channel: Channel) -> None:
    waiting = channel.deliveries.filter(state=Delivery.State.PENDING)
    gone = {"state": Delivery.State.FAILED, "next_try_at": None, "ended_at": timezone.now()}
    waiting.update(error="the channel was switched off", **gone)


def _recorded(channel: Channel) -> dict[str, object]:
    """For the audit log, which everybody may read: the path of a URL may be a secret."""
    address = CHANNELS[channel.kind].shown(channel.address)
    recorded = {"kind": channel.kind, "address": address, "events": channel.events, "active": channel.active}
    return {**recorded, **({"details": channel.details} if channel.details else {}), "owner": str(channel.owner)}
