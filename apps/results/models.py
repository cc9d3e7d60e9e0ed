"""What runs yielded: measurements with unit and direction, compressed time series, and marks on their time axis."""

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
    """The time series of one source during one step; its samples are in blocks."""

    behind = ("run",)

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
    """Consecutive samples of columns that a chart shows together, or of the times alone: so that a chart reads what it
    shows, of the time that it shows. A column that is in no block of some samples has none there."""

    behind = ("series",)

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="blocks")
    group = models.CharField(max_length=80, blank=True, help_text="group of the declared columns; empty: t")
    columns = ArrayField(models.CharField(max_length=80))
    first = models.PositiveIntegerField(help_text="index of its first sample in the series, from 0")
    samples = models.PositiveIntegerField()
    begin = models.FloatField(help_text="t of its first sample")
    end = models.FloatField(help_text="t of its last sample")
    packed = models.BinaryField()

    class Meta:
        ordering = ["series", "first", "group"]
        constraints = [models.UniqueConstraint(fields=["series", "group", "first"], name="block_once")]

    def __str__(self) -> str:
        return f"{self.series_id} {self.group or 't'} from {self.first}"

    def unpack(self, names: Collection[str]) -> dict[str, NDArray[np.float64]]:
        """Those of the columns that are in this block -> samples; missing ones are nan."""
        selected = [name in names for name in self.columns]
        arrays = codec.unpack(bytes(self.packed), self.samples, selected)
        return dict(zip((name for name in self.columns if name in names), arrays, strict=True))


class Mark(Walled):
    """Something that happened while a step was measured, from `t` to `until`: seconds since the step began. It may have
    begun before (t < 0), and `until` is empty where its end was not seen."""

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


class Within(Walled):
    """What the samples of one measured step of an ok run say of it, found once when its results are read: its warm-up,
    whether it was steady after that, what it lost. runs/stability.py has the shape of `data`."""

    behind = ("run",)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="within")
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
        verbose_name_plural = "within"
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="within_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step} within"


class StepMeans(Walled):
    """The mean of each column of the collectors over one measured step of an ok run, on the host that PostgreSQL ran
    on: the figures that campaigns compare. Computed once, when the results of the run are read."""

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


class Look(Walled):
    """One interim analysis of the comparison that a campaign's stop rule names; never computed again."""

    behind = ("campaign",)

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="looks")
    number = models.PositiveIntegerField(help_text="from 1")
    at = models.DateTimeField(auto_now_add=True)
    blocks = models.PositiveIntegerField(help_text="blocks with runs of both levels")
    planned = models.PositiveIntegerField(help_text="planned maximum of blocks at that time")
    alpha = models.FloatField(help_text="alpha spent so far, of 0.05")
    alpha_90 = models.FloatField(help_text="alpha spent so far on equivalence, of 0.10")
    nominal_p = models.FloatField(help_text="nominal p below which this analysis is significant")
    found: Any = models.JSONField(null=True, help_text="the adjusted comparison; empty if there are too few data")
    met = models.BooleanField(help_text="whether the stop rule is met")

    class Meta:
        ordering = ["campaign", "number"]
        constraints = [models.UniqueConstraint(fields=["campaign", "number"], name="look_once")]

    def __str__(self) -> str:
        return f"interim analysis {self.number} of {self.of} of {self.campaign}"

    def as_dict(self) -> dict[str, Any]:
        """Alpha spent, and the comparison of that time."""
        names = ("number", "of", "blocks", "planned", "alpha", "nominal_p", "found", "met")
        return {"at": self.at.isoformat(), **{name: getattr(self, name) for name in names}}

    @property
    def of(self) -> int:
        """How many analyses there are at most, one after each block to come."""
        return self.number + max(0, self.planned - self.blocks)


class Kept(Walled):
    """An answer about a campaign that takes all its runs, as it was computed; see store/answer_cache.py. It may be
    forgotten."""

    behind = ("campaign",)

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="kept")
    name = models.CharField(max_length=60)
    key = models.CharField(max_length=64, help_text="sum of all its sources")
    value = models.BinaryField(help_text="JSON")
    kept_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["campaign", "name"]
        verbose_name_plural = "kept"
        constraints = [models.UniqueConstraint(fields=["campaign", "name"], name="kept_once")]

    def __str__(self) -> str:
        return f"{self.name} of {self.campaign}"


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOST = re.compile(r"^/hosts/([^/?]+)/")


def _keys_in(address: str) -> set[str]:
    """Ids of campaigns and runs, and the name of a host, in the address of a page."""
    plain = unquote(address)
    return {*_ID.findall(plain), *_HOST.findall(plain)}


class Pin(Walled):
    """A chart that the team keeps: the address of its page with all choices, and where it stands on the dashboard."""

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
        """Whether it is shown there."""
        return self.position is not None

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterator[Any]:
        """What a pin shows is only in its address: ids of campaigns and runs, or the name of a host. If such an object
        was deleted, its team is unknown: the pin is hidden with the private teams of its author."""
        with everything():
            keys = {pin: _keys_in(address) for pin, address in cls.objects.values_list("pk", "address")}
            named = {key for found in keys.values() for key in found}
            existing, hidden = _existing(named), _existing(named, teams)
        yield models.Q(pk__in=[pin for pin, found in keys.items() if found & hidden])
        gone = [pin for pin, found in keys.items() if found - existing]
        yield models.Q(_is_by_member(teams, "by"), pk__in=gone)


def _existing(keys: set[str], teams: Teams | None = None) -> set[str]:
    """Those of these keys that are campaigns, runs or hosts; with `teams` only if they are hidden with them."""
    ids = [key for key in keys if _ID.fullmatch(key)]
    found: set[str] = set()
    for model, by, among in ((Campaign, "pk", ids), (Run, "pk", ids), (Host, "name", keys)):
        rows = models.QuerySet(model) if teams is None else only_hidden(model, teams)
        found |= set(map(str, rows.filter(**{f"{by}__in": among}).values_list(by, flat=True)))
    return found


def _is_by_member(teams: Teams, author: str) -> models.Exists:
    """Whether the user in the column `author` is a member of one of these teams."""
    return models.Exists(models.QuerySet(Membership).filter(team__in=sorted(teams), user=models.OuterRef(author)))


class Import(Walled):
    """Old results that were uploaded: a draft, and then the campaign that was made of it. The same contents once."""

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
        """A draft belongs to no host yet, so it is hidden with the private teams of its author."""
        yield models.Q(_is_by_member(teams, "created_by"), campaign=None)


class ImportedFile(Walled):
    """One file of an import, as it was uploaded. What became an artefact of one run is kept there only."""

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
