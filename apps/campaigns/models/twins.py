"""A twin: the data set and the workload that were made from a captured production database."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import Owned, User
from apps.campaigns.models.workloads import DataSet, Workload


class Twin(Owned):
    """The statements of production, with their counts, to compare runs with. The captured file is not stored."""

    behind = ("team", "dataset", "workload")

    name = models.CharField(max_length=63, help_text="also the name of its data set and its workload")
    dataset = models.ForeignKey(DataSet, on_delete=models.PROTECT, related_name="twins")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="twins")
    database = models.CharField(max_length=63, help_text="the captured database")
    version = models.PositiveIntegerField(help_text="its server_version_num")
    seconds = models.FloatField(help_text="between the two snapshots")
    factor = models.FloatField(help_text="rows of the twin per row of production")
    covered = models.FloatField(help_text="share of production's execution time in statements of the twin, 0 to 1")
    statements: Any = models.JSONField(help_text="of production, those with most time first")
    missing: Any = models.JSONField(default=list, blank=True, help_text="parts of the schema that the twin lacks")
    author = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-created_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["workload", "dataset"], name="twin_once")]

    def __str__(self) -> str:
        return f"{self.name} r{self.workload.revision}"

    @property
    def covered_percent(self) -> float:
        return 100 * self.covered

    @property
    def made(self) -> list[dict[str, Any]]:
        """The statements that are in the twin."""
        return [statement for statement in self.statements if statement["script"]]

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """The others, each with the reason."""
        return [statement for statement in self.statements if not statement["script"]]
