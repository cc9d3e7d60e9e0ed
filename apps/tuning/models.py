"""Profiles and their immutable revisions."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import Owned, User, Walled
from apps.hosts.models import NAME


class Profile(Owned):
    """A named profile. Its settings are in its revisions."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def latest(self) -> Revision | None:
        return self.revisions.order_by("-number").first()


class Revision(Walled):
    """The settings of a profile at one time. A trigger refuses changes of rows."""

    behind = ("profile",)

    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    settings: Any = models.JSONField(help_text="setting name -> wanted, valid against the catalogue")
    digest = models.CharField(max_length=64)
    note = models.TextField(blank=True)
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["profile", "number"], name="revision_number_once_per_profile")]

    def __str__(self) -> str:
        return f"{self.profile} r{self.number}"
