"""Users with a role, teams with roles of their own, API tokens, and the append-only audit log."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.indexes import GinIndex
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.accounts.notices.events import KINDS
from apps.accounts.notices.kinds import CHANNELS


class Role(models.TextChoices):
    """What a user may do; each includes the ones before it."""

    VIEWER = "viewer", "viewer: reads everything"
    OPERATOR = "operator", "operator: starts and cancels campaigns"
    TUNER = "tuner", "tuner: writes profiles, workloads and decisions"
    ADMIN = "admin", "admin: adds hosts and users"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Thing(Protocol):
    """What a role is held on: `owners` are the keys of the teams that have a say, None among them for the house."""

    @property
    def owners(self) -> Collection[int | None]: ...


class User(AbstractUser):
    """`role` is that in the house. Behind a token it is the token's where that is less: see `limit_to`."""

    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    may_run_commands = models.BooleanField(
        default=False, help_text="create and start workloads that execute programs or scripts of the user"
    )

    limit: Role = Role.ADMIN
    whole: Role | None = None

    def may(self, role: Role, on: Thing | None = None) -> bool:
        """Whether this user's role includes `role`: in the house, or on a thing, in every team whose it is."""
        if on is None or self.of_house:
            return self.is_active and Role(self.role).includes(role)
        return self.is_active and all(self.role_in(team).includes(role) for team in on.owners)

    def may_somewhere(self, role: Role) -> bool:
        """Whether it does in the house, or in any team: on what, a service has to ask."""
        return self.may(role) or (self.is_active and any(each.includes(role) for each in self.held.values()))

    def role_in(self, team: int | None) -> Role:
        """In the team with this key; None is the house. Admins of the house are admins everywhere, others are viewers
        where they are no members."""
        if team is None or self.of_house:
            return Role(self.role)
        return self.held.get(team, Role.VIEWER)

    @property
    def of_house(self) -> bool:
        """Whether this is an admin of the house, however little a token lets through."""
        return (self.whole or self.role) == Role.ADMIN

    @property
    def held(self) -> dict[int, Role]:
        """Team -> role there, within the limit. One query for as long as this row is held."""
        models.prefetch_related_objects([self], "memberships")
        return {each.team_id: min(Role(each.role), self.limit, key=list(Role).index) for each in self.memberships.all()}

    @property
    def narrowed(self) -> Role | None:
        """The role of the token that asks, where it keeps back something that the user may; else None."""
        held = [Role(self.whole or self.role), *(Role(each.role) for each in self.memberships.all())]
        return None if all(self.limit.includes(each) for each in held) else self.limit

    def limit_to(self, role: Role) -> None:
        """Let this row, never the table, do no more than `role`, in the house and in every team: a token asks."""
        self.whole, self.limit = Role(self.role), role
        self.role = min(self.whole, role, key=list(Role).index)


class Team(models.Model):
    """People with roles of their own, and the things that are theirs."""

    name = models.CharField(max_length=63, unique=True)
    about = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """Its admins see to it."""
        return (self.pk,)


class Membership(models.Model):
    """What somebody may do with what is a team's."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)

    class Meta:
        ordering = ["team__name", "user__username"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="member_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Owned(models.Model):
    """What may be a team's. Everybody who logs in reads it; the roles of its team say who changes it."""

    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="%(class)ss",
        help_text="owning team; null: none, so instance roles apply",
    )

    class Meta:
        abstract = True

    @property
    def owners(self) -> Collection[int | None]:
        return (self.team_id,)


class Credential(models.Model):
    """What lets somebody in as its `user` without the password; all of them end when the password changes."""

    class Meta:
        abstract = True

    @classmethod
    def end_all(cls, user: User) -> int:
        """Delete every credential of `user`; how many there were."""
        kinds: list[Any] = cls.__subclasses__()
        return sum(int(kind.objects.filter(user=user).delete()[1].get(kind._meta.label, 0)) for kind in kinds)


class ApiToken(Credential):
    """A bearer token: shown once, stored as a hash, never with more rights than its owner."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.user})"

    @staticmethod
    def hash(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()

    @classmethod
    def issue(cls, user: User, name: str, role: Role, days: int = 90) -> tuple[ApiToken, str]:
        """A new token and its secret, which is not stored."""
        secret = "pg_" + secrets.token_urlsafe(32)
        expires_at = timezone.now() + timedelta(days=days)
        token = cls.objects.create(user=user, name=name, role=role, digest=cls.hash(secret), expires_at=expires_at)
        return token, secret


class IdempotentRequest(models.Model):
    """A POST with an Idempotency-Key, and what was answered; `status` None while it is being done."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    path = models.CharField(max_length=500)
    digest = models.CharField(max_length=64, help_text="digest of the body")
    status = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=100, blank=True)
    body = models.BinaryField(default=b"")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key", "path"], name="one_per_key")]

    def __str__(self) -> str:
        return f"{self.key} {self.path}"


class AuditEntry(models.Model):
    """Who did what to which thing; a trigger refuses to change or delete rows."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    before: Any = models.JSONField(null=True)
    after: Any = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        # What was done to one thing, by its key in `after`.
        indexes = [GinIndex(fields=["after"], opclasses=["jsonb_path_ops"], name="audit_after")]

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.actor} {self.action} {self.target}"


# Kinds of which everybody may have a channel.
OWN_KINDS = [name for name, kind in CHANNELS.items() if not kind.for_admins]


class ChannelQuerySet(models.QuerySet["Channel"]):
    def of(self, user: User) -> ChannelQuerySet:
        """Those that `user` may change: the own ones, and an admin all."""
        return self if user.may(Role.ADMIN) else self.filter(owner=user, kind__in=OWN_KINDS)


class Channel(models.Model):
    """A destination for notifications, and the kinds of events that it receives."""

    class Kind(models.TextChoices):
        MAIL = "mail", "mail"
        CHAT = "chat", "chat"
        WEBHOOK = "webhook", "webhook"

    name = models.CharField(max_length=63, unique=True)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="channels")
    kind = models.CharField(max_length=7, choices=Kind)
    address = models.CharField(max_length=500, help_text="a mail address, or the URL of a webhook")
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
        """The address; of a URL only the server to those who may not change it: its path may be a secret."""
        return self.address if user.may(Role.ADMIN) else CHANNELS[self.kind].shown(self.address)

    @property
    def titles(self) -> list[str]:
        """The titles of the events that it receives."""
        return [KINDS.get(kind, kind) for kind in self.events]


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> DeliveryQuerySet:
        """What wants to be sent and nobody is sending; what failed before comes last."""
        due = self.filter(state=Delivery.State.PENDING, next_try_at__lte=now, channel__active=True)
        return due.order_by("attempts", "created_at")


class Delivery(models.Model):
    """One event on its way to one channel: written in the transaction of the event, sent by whoever is awake."""

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
        """This row, while the try that we claimed is the newest."""
        return Delivery.objects.filter(pk=self.pk, state=self.State.PENDING, attempts=self.attempts)


class Session(Credential, AbstractBaseSession):
    """A login of somebody's browser. Its key is a secret; `public` names it where it is shown."""

    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="sessions")
    public = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)
    address = models.GenericIPAddressField(null=True)
    agent = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = [models.Index(fields=["user", "-seen_at"], name="session_of_user")]

    def __str__(self) -> str:
        return f"session of {self.user}"

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        store: type[SessionBase] = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
        return store


class ProviderAccount(models.Model):
    """The account at the OpenID provider with which `user` signs in; a password no longer works for this user."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="provider_account")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255, help_text="the account's permanent identifier at the provider")
    linked_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(default=timezone.now, help_text="when the provider last confirmed the account")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="provider_account_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class ProviderSession(models.Model):
    """A session that the provider started, with the tokens that renew and end it there."""

    session = models.OneToOneField(Session, primary_key=True, on_delete=models.CASCADE, related_name="provider")
    account = models.ForeignKey(ProviderAccount, on_delete=models.CASCADE, related_name="sessions")
    refresh_encrypted = models.TextField(blank=True, editable=False)
    id_token_encrypted = models.TextField(blank=True, editable=False)
    confirmed_at = models.DateTimeField(default=timezone.now)
    tried_at = models.DateTimeField(default=timezone.now, help_text="last attempt to confirm it")

    def __str__(self) -> str:
        return f"session of {self.account}"
