"""Credentials that replace the password: API tokens, sessions, and the account at the provider."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.accounts.models.limits import Limits, Role, Scope
from apps.accounts.models.users import Team, User


class Credential(models.Model):
    """Grants the access of `user` without the password. All credentials of a user end when the password changes."""

    class Meta:
        abstract = True

    @classmethod
    def end_all(cls, user: User) -> int:
        """Delete every credential of `user` and return their number."""
        kinds: list[Any] = cls.__subclasses__()
        return sum(int(kind.objects.filter(user=user).delete()[1].get(kind._meta.label, 0)) for kind in kinds)


class Scoped(models.Model):
    """Limits of an API token that its owner chose: a role, scopes, and a team."""

    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    scopes: Any = models.JSONField(
        default=list, db_default=[], blank=True, help_text="values of Scope; none: all actions"
    )
    # Without its team a token would permit more than before, so it goes with the team.
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.CASCADE, help_text="the only team in which its role counts"
    )

    class Meta:
        abstract = True

    @property
    def scopes_text(self) -> str:
        """The scopes as pages show them: "all actions", "read only", "reading, campaigns"."""
        if not self.scopes:
            return "all actions"
        writable = [scope for scope in self.scopes if scope != Scope.READ]
        return f"reading, {', '.join(writable)}" if writable else "read only"


class TrustedJob(Credential, Scoped):
    """A job of a CI platform. The server exchanges the ID token that the platform gave it for an API token of `user`
    that is valid for `minutes`."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusted_jobs")
    name = models.CharField(max_length=80)
    issuer = models.CharField(max_length=300)
    claims: Any = models.JSONField(help_text="claims of the ID token -> the values that they must have")
    minutes = models.PositiveIntegerField(help_text="how long a token is valid")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} ({self.user})"


class ApiToken(Credential, Scoped):
    """A bearer token. It is shown once, stored as a hash, and never permits more than its owner may do."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    networks: Any = models.JSONField(
        default=list, db_default=[], blank=True, help_text="from where it works; none: from everywhere"
    )
    job = models.ForeignKey(
        TrustedJob, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens", help_text="of a CI platform"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_from = models.GenericIPAddressField(null=True, blank=True)
    rotated_at = models.DateTimeField(null=True, blank=True)
    old_digest = models.CharField(max_length=64, unique=True, null=True, editable=False)  # noqa: DJ001 - unique
    old_works_until = models.DateTimeField(null=True, blank=True, help_text="when the value before the rotation ends")

    # The hash of the secret that the request sent: the current secret, or the one before the rotation.
    sent_digest = ""

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.user})"

    @property
    def limits(self) -> Limits:
        return Limits(Role(self.role), self.team_id, tuple(self.scopes))

    @property
    def sent_value_works_until(self) -> datetime:
        """When the secret that the request sent stops working: an old secret may end before the token."""
        if self.old_works_until is not None and self.sent_digest == self.old_digest:
            return min(self.expires_at, self.old_works_until)
        return self.expires_at

    @property
    def old_value_works(self) -> bool:
        """Whether the value before the rotation still works."""
        return self.old_works_until is not None and self.old_works_until > timezone.now()

    @staticmethod
    def hash(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()

    @staticmethod
    def new_secret() -> str:
        return "pg_" + secrets.token_urlsafe(32)


class Session(Credential, AbstractBaseSession):
    """A login in one browser. Its key is a secret, so pages and the API identify it by `public`."""

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
