"""What runs yielded: measurements with unit and direction, compressed time series, and marks on their time axis."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.db import models
from numpy.typing import NDArray

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run


class Measurement(models.Model):
    """One figure of one step of one run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="measurements")
    step = models.CharField(max_length=40)
    name = models.CharField(max_length=120)
    value = models.FloatField()
    unit = models.CharField(max_length=20)
    better = models.CharField(max_length=6, blank=True, help_text="higher, lower, or empty where neither is better")
    definition = models.CharField(max_length=80, blank=True, help_text="which of several definitions, such as of tps")

    class Meta:
        ordering = ["run", "step", "name"]
        constraints = [models.UniqueConstraint(fields=["run", "step", "name"], name="measurement_once")]
        indexes = [models.Index(fields=["name", "run"], name="measurement_by_name")]

    def __str__(self) -> str:
        return f"{self.name} {self.value} {self.unit}"


class Series(models.Model):
    """Samples of one source during one step, as columns: float64, column after column, zlib."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series")
    step = models.CharField(max_length=40)
    source = models.CharField(max_length=20)
    columns = ArrayField(models.CharField(max_length=80), help_text="the first is t: seconds since the step began")
    samples = models.PositiveIntegerField()
    packed = models.BinaryField()

    class Meta:
        ordering = ["run", "step", "source"]
        verbose_name_plural = "series"
        constraints = [models.UniqueConstraint(fields=["run", "step", "source"], name="series_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step} {self.source}"

    @staticmethod
    def pack(values: NDArray[np.float64]) -> bytes:
        """Compress an array of shape (columns, samples)."""
        return zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes(), 6)

    def unpack(self) -> dict[str, NDArray[np.float64]]:
        """Column name -> array of shape (samples,); missing samples are nan."""
        flat = np.frombuffer(zlib.decompress(bytes(self.packed)), dtype="<f8")
        return dict(zip(self.columns, flat.reshape(len(self.columns), self.samples), strict=True))


class Mark(models.Model):
    """Something that happened while a step was measured, from `t` to `until`: seconds since the step began. It may have
    begun before (t < 0), and `until` is empty where its end was not seen."""

    class Kind(models.TextChoices):
        CHECKPOINT = "checkpoint"
        RESTARTPOINT = "restartpoint"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="marks")
    step = models.CharField(max_length=40)
    kind = models.CharField(max_length=20, choices=Kind)
    t = models.FloatField()
    until = models.FloatField(null=True)
    label = models.CharField(max_length=120, help_text="why it happened, as the server says")
    data: Any = models.JSONField(help_text="figures with their unit in the name, such as write_s")

    class Meta:
        ordering = ["run", "step", "t"]

    def __str__(self) -> str:
        return f"{self.kind} at {self.t:.1f} s"


class Import(models.Model):
    """Old results that were uploaded: a draft, and then the campaign that was made of it. The same contents once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64, unique=True, help_text="of paths and contents, however they were packed")
    title = models.CharField(max_length=120, help_text="what was uploaded")
    mapping: Any = models.JSONField(default=dict, blank=True, help_text="as imports/mapping.py has it")
    notes: Any = models.JSONField(default=list, blank=True, help_text="what was not understood when it was committed")
    campaign = models.OneToOneField(
        Campaign, null=True, blank=True, on_delete=models.PROTECT, related_name="imported_from"
    )
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.title


class ImportedFile(models.Model):
    """One file of an import, as it was uploaded. What became an artefact of one run is kept there only."""

    of = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=300)
    size = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64, db_index=True)
    content = models.BinaryField(null=True)

    class Meta:
        ordering = ["of", "path"]
        constraints = [models.UniqueConstraint(fields=["of", "path"], name="imported_file_once")]

    def __str__(self) -> str:
        return self.path
