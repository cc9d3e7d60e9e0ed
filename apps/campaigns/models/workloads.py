"""What a run does and on which data; the recipes of a team."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import Owned, User
from apps.campaigns.design import data, steps
from apps.hosts.models import NAME


class Workload(Owned):
    """What is run: named steps, each with a role, a tool and its options. Changing one makes the next revision, of the
    same team."""

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
    """How data are made: by pgbench, or by SQL. Changing one makes the next revision, of the same team."""

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
        """How it is made, in short."""
        return data.brief(self.kind, self.options)

    @property
    def spec(self) -> dict[str, Any]:
        """The data set as part of a run's spec, in the shape of agents/wire/protocol.py."""
        return {"name": str(self), "kind": self.kind, "options": self.options, "reset": self.reset}


class OwnRecipe(models.Model):
    """A recipe of the team, as it was written. Changing one makes the next version; none is ever changed.

    All versions of a name are withdrawn together: they are offered no more, and campaigns made from them go on.
    """

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
