"""The audit log, and the responses to requests that may be repeated."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.db import models

from apps.accounts.models.users import User


class IdempotentRequest(models.Model):
    """A POST with an Idempotency-Key, and its response. `status` is None while the request is in progress."""

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
    """One change: its user, action and target. A trigger refuses to change or delete rows."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    before: Any = models.JSONField(null=True)
    after: Any = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        # Finds the entries of one object by its key in `after`.
        indexes = [GinIndex(fields=["after"], opclasses=["jsonb_path_ops"], name="audit_after")]

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.actor} {self.action} {self.target}"


class AuditSeal(models.Model):
    """A link of the audit log's chain; apps/accounts/audit/chain.py adds it, and a trigger refuses to change it."""

    number = models.PositiveBigIntegerField(primary_key=True, help_text="1, 2, 3, ... without gaps")
    entry = models.OneToOneField(AuditEntry, on_delete=models.PROTECT, related_name="seal")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the entry and of the digest before it")

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


class AuditStream(models.Model):
    """The progress of sending the audit log to the syslog receiver. The table has one row."""

    sent = models.PositiveBigIntegerField(default=0, help_text="number of the last seal that the receiver has read")
    sent_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True, help_text="last attempt, where it failed")
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"sent up to {self.sent}"
