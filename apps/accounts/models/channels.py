"""Channels of notifications, and the deliveries to them."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import models
from django.utils import timezone

from apps.accounts.models.limits import Role
from apps.accounts.models.users import User
from apps.accounts.notices.events import KINDS
from apps.accounts.notices.kinds import CHANNELS
from apps.infrastructure import vault

# Kinds of channels that users of any role can create for themselves.
USER_KINDS = [name for name, kind in CHANNELS.items() if not kind.for_admins]


def channel_kinds() -> list[tuple[str, str]]:
    """The choices of `Channel.kind`. A function, so that a new kind needs no migration."""
    return [(name, name) for name in CHANNELS]


class ChannelQuerySet(models.QuerySet["Channel"]):
    def editable_by(self, user: User) -> ChannelQuerySet:
        """Channels that `user` may change: all for an admin, otherwise those that the user owns."""
        return self if user.may(Role.ADMIN) else self.filter(owner=user, kind__in=USER_KINDS)


class Channel(models.Model):
    """A destination for notifications, and the kinds of events that it receives."""

    name = models.CharField(max_length=63, unique=True)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="channels")
    kind = models.CharField(max_length=20, choices=channel_kinds)
    address = models.CharField(max_length=500, help_text="a mail address, or a URL")
    details: Any = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="the other fields of its kind: name -> value, no secrets"
    )
    secret_encrypted = models.TextField(blank=True, editable=False)
    events: Any = models.JSONField(default=list, blank=True, help_text="kinds of events to send")
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def address_for(self, user: User) -> str:
        """The address for admins. Other users see only the server of a URL, because its path may be a secret."""
        return self.address if user.may(Role.ADMIN) else CHANNELS[self.kind].shown(self.address)

    def details_for(self, user: User) -> dict[str, str]:
        """The other fields for admins. Whoever knows a topic of ntfy can read and write there, so other users see
        none."""
        return self.details if user.may(Role.ADMIN) else {}

    def decrypt_secret(self) -> str:
        """The secret of the channel in plain text. HostError if no key of this server decrypts it."""
        return vault.decrypt(self.secret_encrypted, what=f"the secret of {self}")

    @property
    def titles(self) -> list[str]:
        """The titles of the kinds of events that the channel receives."""
        return [KINDS.get(kind, kind) for kind in self.events]


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> DeliveryQuerySet:
        """Deliveries whose next attempt is due, on active channels. Deliveries that failed before come last."""
        due = self.filter(state=Delivery.State.PENDING, next_try_at__lte=now, channel__active=True)
        return due.order_by("attempts", "created_at")

    def visible_to(self, user: User) -> DeliveryQuerySet:
        """Deliveries that `user` may read. Mail to other users is left out, because it may name objects of a private
        team; with a token that is limited to a team, so is the user's own mail."""
        of_all = models.Q(channel__kind__in=[kind for kind in CHANNELS if kind not in USER_KINDS])
        if user.limits.team is not None:
            return self.filter(of_all)
        return self.filter(of_all | models.Q(channel__in=Channel.objects.editable_by(user)))


class Delivery(models.Model):
    """One event for one channel. The transaction of the event creates it; a worker sends it."""

    class State(models.TextChoices):
        PENDING = "pending", "pending"
        SENT = "sent", "sent"
        FAILED = "failed", "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="deliveries")
    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=200)
    payload: Any = models.JSONField(help_text='{"text", "path", ...}')
    state = models.CharField(max_length=7, choices=State, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    next_try_at = models.DateTimeField(null=True, default=timezone.now)
    status = models.PositiveIntegerField(null=True, help_text="last answer of the receiver of a webhook")
    error = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state="pending") ^ models.Q(next_try_at=None), name="tried_again_while_pending"
            )
        ]
        indexes = [
            models.Index(fields=["next_try_at"], condition=models.Q(state="pending"), name="delivery_due"),
            models.Index(fields=["channel", "-created_at"], name="delivery_log"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} to {self.channel}"

    def mine(self) -> DeliveryQuerySet:
        """This row, as long as no other process has claimed a later attempt."""
        return Delivery.objects.filter(pk=self.pk, state=self.State.PENDING, attempts=self.attempts)
