"""Results of runs: measurements with unit and direction, compressed time series, marks on their time axis, saved
views, imports."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.db import models
from numpy.typing import NDArray

from apps.accounts.models import Membership, Teams, User, Walled
from apps.accounts.models.walls import everything, only_hidden
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.infrastructure.months import KEPT
from apps.results.store import codec


class Measurement(Walled):
    """One figure of one step of one run."""

    behind = ("run",)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="measurements")
    step = models.CharField(max_length=40)
    name = models.CharField(max_length=120)
    value = models.FloatField()
    unit = models.CharField(max_length=20)
    better = models.CharField(max_length=6, blank=True, help_text="higher, lower, or empty where neither is better")
    definition = models.CharField(
        max_length=80, blank=True, help_text="the definition, if there are several, such as of tps"
    )

    class Meta:
        ordering = ["run", "step", "name"]
        constraints = [models.UniqueConstraint(fields=["run", "step", "name"], name="measurement_once")]
        indexes = [models.Index(fields=["name", "run"], name="measurement_by_name")]

    def __str__(self) -> str:
        return f"{self.name} {self.value} {self.unit}"


class Series(Walled):
    """The time series of one source during one step. Its samples are in blocks."""

    behind = ("run",)
    numerous = True

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series")
    step = models.CharField(max_length=40)
    source = models.CharField(max_length=20)
    columns = ArrayField(
        models.CharField(max_length=80), help_text="the first is t: seconds since the start of the step"
    )
    samples = models.PositiveIntegerField(default=0)
    thinned_s = models.FloatField(null=True, help_text="seconds per remaining sample; empty: all samples are kept")

    class Meta:
        ordering = ["run", "step", "source"]
        verbose_name_plural = "series"
        constraints = [models.UniqueConstraint(fields=["run", "step", "source"], name="series_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step} {self.source}"


class Block(Walled):
    """Consecutive samples of columns that a chart shows together, or of the times only. A chart only reads the blocks
    that it shows.

    A column without a block for some samples has no value there."""

    behind = ("series",)

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    group = models.CharField(max_length=80, blank=True, help_text="group of the declared columns; empty: t")
    columns = ArrayField(models.CharField(max_length=80))
    first = models.PositiveIntegerField(help_text="index of its first sample in the series, from 0")
    samples = models.PositiveIntegerField()
    begin = models.FloatField(help_text="t of its first sample")
    end = models.FloatField(help_text="t of its last sample")
    packed = models.BinaryField()
    month = models.DateField(
        default=KEPT,
        db_default=KEPT,
        help_text="first day of the month in which the run started: selects the partition",
    )

    class Meta:
        ordering = ["series", "first", "group"]
        db_table = "results_blocks"
        # All blocks of a series have the same month, so this is as strict as without it.
        constraints = [
            models.UniqueConstraint(fields=["series", "group", "first", "month"], name="block_once_per_month")
        ]

    def __str__(self) -> str:
        return f"{self.series_id} {self.group or 't'} from {self.first}"

    def unpack(self, names: Collection[str]) -> dict[str, NDArray[np.float64]]:
        """Return column -> samples, for those of the columns that are in this block; missing samples are nan."""
        selected = [name in names for name in self.columns]
        arrays = codec.unpack(bytes(self.packed), self.samples, selected)
        return dict(zip((name for name in self.columns if name in names), arrays, strict=True))


class Mark(Walled):
    """An event during a step, from `t` to `until`, in seconds since the step started.

    It may have started earlier (t < 0); `until` is None if its end was not observed."""

    behind = ("run",)

    class Kind(models.TextChoices):
        CHECKPOINT = "checkpoint"
        RESTARTPOINT = "restartpoint"
        SECTION = "section"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="marks")
    step = models.CharField(max_length=40)
    kind = models.CharField(max_length=20, choices=Kind)
    t = models.FloatField()
    until = models.FloatField(null=True)
    label = models.CharField(max_length=120, help_text="cause, or the section of a job file")
    data: Any = models.JSONField(help_text="figures; their names include the unit, such as write_s")

    class Meta:
        ordering = ["run", "step", "t"]

    def __str__(self) -> str:
        return f"{self.kind} at {self.t:.1f} s"


class StepStability(Walled):
    """Findings from the samples of one measured step of an ok run: warm-up, stability, stalls.

    Computed once, when the results of the run are read. runs/stability.py defines `data`."""

    behind = ("run",)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="step_stabilities")
    step = models.CharField(max_length=40)
    steady = models.BooleanField(null=True, help_text="empty: too few samples for a result")
    trending = models.BooleanField(default=False, help_text="it changed by the margin or more after its warm-up")
    stalled_s = models.FloatField(default=0, help_text="seconds at less than a tenth of its median rate")
    few_checkpoints = models.BooleanField(
        default=False, help_text="the step writes, but had fewer than two checkpoints"
    )
    data: Any = models.JSONField()

    class Meta:
        ordering = ["run", "step"]
        db_table = "results_within"
        verbose_name_plural = "step stabilities"
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="within_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step} within"


class StepMeans(Walled):
    """The mean of each collector column over one measured step of an ok run, on the host of PostgreSQL. Campaigns
    compare these figures.

    Computed once, when the results of the run are read."""

    behind = ("run",)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="step_means")
    step = models.CharField(max_length=40)
    seconds = models.FloatField(help_text="duration of the step")
    data: Any = models.JSONField(
        help_text="collector -> column -> mean; parts of the machine are summed, as <cpu>.busy"
    )

    class Meta:
        ordering = ["run", "step"]
        verbose_name_plural = "step means"
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="step_means_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step} means"


class InterimAnalysis(Walled):
    """One interim analysis of the comparison in a campaign's stopping rule; never computed again."""

    behind = ("campaign",)

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="interim_analyses")
    number = models.PositiveIntegerField(help_text="from 1")
    at = models.DateTimeField(auto_now_add=True)
    blocks = models.PositiveIntegerField(help_text="blocks with runs of both levels")
    planned = models.PositiveIntegerField(help_text="planned maximum of blocks at that time")
    alpha = models.FloatField(help_text="alpha spent so far, of 0.05")
    alpha_90 = models.FloatField(help_text="alpha spent so far on equivalence, of 0.10")
    nominal_p = models.FloatField(help_text="nominal p below which this analysis is significant")
    comparison: Any = models.JSONField(
        db_column="found", null=True, help_text="adjusted for all analyses; null if there are too few data"
    )
    met = models.BooleanField(help_text="whether the stop rule is met")

    class Meta:
        ordering = ["campaign", "number"]
        verbose_name_plural = "interim analyses"
        db_table = "results_look"
        constraints = [models.UniqueConstraint(fields=["campaign", "number"], name="look_once")]

    def __str__(self) -> str:
        return f"interim analysis {self.number} of {self.of} of {self.campaign}"

    def as_dict(self) -> dict[str, Any]:
        """Return the alpha spent, and the comparison at that time."""
        names = ("number", "of", "blocks", "planned", "alpha", "nominal_p", "comparison", "met")
        return {"at": self.at.isoformat(), **{name: getattr(self, name) for name in names}}

    @property
    def of(self) -> int:
        """The maximum number of analyses, one after each block."""
        return self.number + max(0, self.planned - self.blocks)


class CachedAnswer(Walled):
    """A cached answer about a campaign that needs all of its runs; see store/answer_cache.py. It may be deleted."""

    behind = ("campaign",)

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="cached_answers")
    name = models.CharField(max_length=60)
    key = models.CharField(max_length=64, help_text="sum of all its sources")
    value = models.BinaryField(help_text="JSON")
    stored_at = models.DateTimeField(db_column="kept_at", auto_now=True)

    class Meta:
        ordering = ["campaign", "name"]
        verbose_name_plural = "cached answers"
        db_table = "results_kept"
        constraints = [models.UniqueConstraint(fields=["campaign", "name"], name="kept_once")]

    def __str__(self) -> str:
        return f"{self.name} of {self.campaign}"


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOST = re.compile(r"^/hosts/([^/?]+)/")


def _keys_in(address: str) -> set[str]:
    """Return the IDs of campaigns and runs, and the name of a host, in the URL of a page."""
    plain = unquote(address)
    return {*_ID.findall(plain), *_HOST.findall(plain)}


class Pin(Walled):
    """A saved view: the URL of a page with all choices, and its position on the dashboard."""

    title = models.CharField(max_length=160)
    note = models.TextField(blank=True, help_text="why it is watched, or what to do when it changes")
    shows = models.CharField(max_length=400, blank=True, help_text="title of the chart on its page")
    address = models.CharField(max_length=2000, help_text="path and query of the page, as places.py builds it")
    chart = models.CharField(max_length=40, help_text="name of the chart on that page")
    position = models.PositiveIntegerField(
        null=True, blank=True, help_text="position on the dashboard; empty: not shown there"
    )
    by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=models.Q(address__regex=r"^/[^/\\]"), name="pin_within_this_server")
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def dashboard(self) -> bool:
        """Whether it is on the dashboard."""
        return self.position is not None

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterator[Any]:
        """Hide saved views of hidden objects. The URL has IDs of campaigns and runs, or the name of a host.

        If such an object was deleted, its team is unknown: the view is hidden with the private teams of its author."""
        with everything():
            keys = {pin: _keys_in(address) for pin, address in cls.objects.values_list("pk", "address")}
            if not keys:
                return
            named = {key for pin_keys in keys.values() for key in pin_keys}
            existing, hidden = _existing(named), _existing(named, teams)
        yield models.Q(pk__in=[pin for pin, pin_keys in keys.items() if pin_keys & hidden])
        with_deleted = [pin for pin, pin_keys in keys.items() if pin_keys - existing]
        yield models.Q(_is_by_member(teams, "by"), pk__in=with_deleted)


def _existing(keys: set[str], teams: Teams | None = None) -> set[str]:
    """Return the keys that are campaigns, runs or hosts; with `teams`, only those that are hidden with them."""
    ids = [key for key in keys if _ID.fullmatch(key)]
    existing: set[str] = set()
    for model, by, among in ((Campaign, "pk", ids), (Run, "pk", ids), (Host, "name", keys)):
        rows = models.QuerySet(model) if teams is None else only_hidden(model, teams)
        existing |= set(map(str, rows.filter(**{f"{by}__in": among}).values_list(by, flat=True)))
    return existing


def _is_by_member(teams: Teams, author: str) -> models.Exists:
    """Return whether the user in the column `author` is a member of one of these teams."""
    return models.Exists(models.QuerySet(Membership).filter(team__in=sorted(teams), user=models.OuterRef(author)))


class Import(Walled):
    """Uploaded old results: a draft, then the campaign created from it. The same contents exist only once."""

    behind = ("campaign",)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(
        max_length=64, unique=True, help_text="digest of paths and contents, independent of compression"
    )
    title = models.CharField(max_length=120, help_text="the uploaded files")
    mapping: Any = models.JSONField(default=dict, blank=True, help_text="as imports/mapping.py has it")
    notes: Any = models.JSONField(
        default=list, blank=True, help_text="parts that could not be interpreted when it was committed"
    )
    campaign = models.OneToOneField(
        Campaign, null=True, blank=True, on_delete=models.PROTECT, related_name="imported_from"
    )
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.title

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterator[Any]:
        """Hide drafts with the private teams of their author, because they have no host yet."""
        yield models.Q(_is_by_member(teams, "created_by"), campaign=None)


class ImportedFile(Walled):
    """One file of an import, as uploaded. The content of a file that became an artefact of one run is only stored
    there."""

    behind = ("of",)

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
