"""Users with a role, API tokens, and the append-only audit log."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone


class Role(models.TextChoices):
    """What a user may do; each includes the ones before it."""

    VIEWER = "viewer", "viewer: reads everything"
    OPERATOR = "operator", "operator: starts and cancels campaigns"
    TUNER = "tuner", "tuner: writes profiles, workloads and decisions"
    ADMIN = "admin", "admin: adds hosts and users"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class User(AbstractUser):
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    may_run_commands = models.BooleanField(
        default=False, help_text="write and start workloads that execute programs or scripts of the user's own"
    )

    def may(self, role: Role) -> bool:
        """Whether this user's role includes `role`."""
        return self.is_active and Role(self.role).includes(role)


class ApiToken(models.Model):
    """A bearer token: shown once, kept as a hash, never more than its owner may do."""

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
        """A new token and its secret, which is not kept."""
        secret = "pg_" + secrets.token_urlsafe(32)
        expires_at = timezone.now() + timedelta(days=days)
        token = cls.objects.create(user=user, name=name, role=role, digest=cls.hash(secret), expires_at=expires_at)
        return token, secret


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

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.actor} {self.action} {self.target}"
