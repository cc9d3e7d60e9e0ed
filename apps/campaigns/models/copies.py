"""Copies of data sets on hosts, and their use by runs."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import Walled
from apps.campaigns.design import data
from apps.campaigns.models.runs import Run
from apps.campaigns.models.workloads import DataSet
from apps.hosts.models import Host


class DataCopy(Walled):
    """A data set in a private cluster of a host, as reported by its runs."""

    behind = ("host", "dataset", "made_by")

    class State(models.TextChoices):
        PREPARING = "preparing"
        PRISTINE = "pristine"
        DIRTY = "dirty"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="data_copies")
    home = models.CharField(max_length=500, help_text="the private cluster's directory")
    fingerprint = models.CharField(
        max_length=64, help_text="digest of its definition and the major version of PostgreSQL"
    )
    dataset = models.ForeignKey(DataSet, null=True, on_delete=models.SET_NULL, related_name="copies")
    recipe: Any = models.JSONField(help_text='{"kind", "options"}')
    major = models.PositiveIntegerField()
    database = models.CharField(max_length=63)
    target: Any = models.JSONField(help_text="of the last run that reported it")
    initdb: Any = models.JSONField(default=dict, help_text="the initdb setting of its cluster")
    state = models.CharField(max_length=9, choices=State)
    size = models.PositiveBigIntegerField(default=0, help_text="bytes")
    relations: Any = models.JSONField(default=dict, help_text="relation -> {bytes, rows}")
    seconds: Any = models.JSONField(default=list, help_text="[[step of its creation, seconds]]")
    made_by = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["host", "home", "fingerprint"]
        verbose_name_plural = "data copies"
        constraints = [models.UniqueConstraint(fields=["host", "home", "fingerprint"], name="data_copy_once")]

    def __str__(self) -> str:
        return f"{self.database} on {self.host}"

    @property
    def brief(self) -> str:
        """A short description of how it was created."""
        return data.brief(self.recipe["kind"], self.recipe["options"])

    @property
    def took(self) -> float:
        """The total seconds of its steps."""
        return float(sum(seconds for _, seconds in self.seconds))


class DataUse(Walled):
    """How a run used a data set: the pristine one, a copy of it, or a new one; and how long that took."""

    behind = ("run",)

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="data_use")
    copy = models.ForeignKey(DataCopy, null=True, on_delete=models.SET_NULL, related_name="uses")
    name = models.CharField(max_length=80)
    definition = models.CharField(
        max_length=64, db_default="", help_text="digest of kind, options and PostgreSQL's major version"
    )
    fingerprint = models.CharField(max_length=64, db_default="", help_text="of the data; see DataCopy")
    means = models.CharField(max_length=8, help_text="pristine, copy, reinit, keep, prepared or removed")
    reason = models.TextField()
    seconds = models.FloatField(default=0)
    wrote = models.BooleanField(null=True, help_text="whether the run changed it; empty: unknown")

    class Meta:
        ordering = ["run"]

    def __str__(self) -> str:
        return f"{self.name}: {self.means}"
