"""Workloads, data sets, and the recipes of a team."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import Owned, User
from apps.campaigns.design import data, steps
from apps.hosts.models import NAME


class Workload(Owned):
    """Named steps, each with a role, a tool and its options. A change creates the next revision, of the same team."""

    name = models.CharField(max_length=63, validators=[NAME])
    revision = models.PositiveIntegerField(default=1)
    steps: Any = models.JSONField(help_text='[{"name", "role", "kind", "options"}]')
    digest = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    author = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-revision"]
        constraints = [models.UniqueConstraint(fields=["name", "revision"], name="workload_revision_once")]

    def __str__(self) -> str:
        return f"{self.name} r{self.revision}"

    @property
    def kinds(self) -> str:
        """Its tools, such as "sql, pgbench"."""
        return steps.kinds(self.steps)

    @property
    def imported(self) -> bool:
        """Whether it only describes a measurement made elsewhere."""
        return steps.imported(self.steps)


class DataSet(Owned):
    """How data are created: by pgbench or by SQL. A change creates the next revision, of the same team."""

    name = models.CharField(max_length=63, validators=[NAME])
    revision = models.PositiveIntegerField(default=1)
    kind = models.CharField(max_length=20)
    options: Any = models.JSONField(default=dict, blank=True, help_text="options of its kind")
    reset = models.CharField(max_length=6, default="auto", help_text="how it is reset for a run that writes")
    digest = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    author = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-revision"]
        constraints = [models.UniqueConstraint(fields=["name", "revision"], name="dataset_revision_once")]

    def __str__(self) -> str:
        return f"{self.name} r{self.revision}"

    @property
    def brief(self) -> str:
        """A short description of how it is created."""
        return data.brief(self.kind, self.options)

    @property
    def spec(self) -> dict[str, Any]:
        """The data set as part of a run's spec, in the shape of agents/wire/protocol.py."""
        return {"name": str(self), "kind": self.kind, "options": self.options, "reset": self.reset}


class OwnRecipe(models.Model):
    """A recipe of the team, as written. A change creates the next version; versions never change.

    All versions of a name are withdrawn together. They are then no longer offered, and campaigns created from them
    continue."""

    name = models.CharField(max_length=40)
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="YAML, with its comments")
    content: Any = models.JSONField(help_text="the parsed recipe")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="own_recipe_version_once")]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"
