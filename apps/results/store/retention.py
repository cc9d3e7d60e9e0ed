"""Thin old series: of runs that ended long ago, only the mean of each interval remains.

Measurements, findings, marks, proofs and raw outputs do not change, nor do verdicts: all of them were computed when
the run was read, and are not computed again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone
from numpy.typing import NDArray

from apps.accounts.services import audit
from apps.campaigns.models import Run
from apps.infrastructure import months
from apps.results.models import Block, Series
from apps.results.store import codec
from apps.results.store.fold import FULL, Table

Floats = NDArray[np.float64]
WORK_S = 20.0  # of one task


@dataclass
class Thinned:
    """What was thinned, or would be."""

    series: int = 0
    samples_before: int = 0
    samples_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def add(self, other: Thinned) -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def due(now: datetime, days: int) -> QuerySet[Series]:
    """Return series of runs that ended more than `days` ago, were read, and are not thinned."""
    old = Run.objects.filter(state=Run.State.ENDED, ended_at__lt=now - timedelta(days=days), ingested_at__isnull=False)
    return Series.objects.filter(thinned_s=None, run__in=old).order_by("pk")


def thin(days: int, width_s: float, *, dry_run: bool = False, until_s: float | None = None) -> Thinned:
    """Thin all due series, each in its own transaction, for at most `until_s`, with one audit row. `dry_run` only
    reports the result."""
    thinned, ends = Thinned(), None if until_s is None else time.monotonic() + until_s
    for pk in due(timezone.now(), days).values_list("pk", flat=True).iterator(chunk_size=500):
        thinned.add(_thin(pk, width_s, dry_run))
        if ends and time.monotonic() > ends:
            break
    if thinned.series and not dry_run:
        audit(None, "series.thin", f"runs older than {days} days", after={"width_s": width_s, **vars(thinned)})
    return thinned


def thin_due() -> None:
    """Thin as configured in PROVING_RETAIN_DAYS; 0 keeps everything."""
    if settings.RETAIN_DAYS:
        thin(settings.RETAIN_DAYS, settings.RETAIN_STEP_S, until_s=WORK_S)


@transaction.atomic
def _thin(pk: int, width_s: float, dry_run: bool) -> Thinned:
    series = Series.objects.select_for_update(no_key=True).filter(pk=pk, thinned_s=None).first()
    if series is None:
        return Thinned()
    before = series.blocks.aggregate(size=Sum(Length("packed")))["size"] or 0
    groups = _means(series, width_s)
    t = groups[""]["t"] if groups else np.empty(0)
    blocks = [block for group, table in groups.items() for block in _packed(series, group, table, t)]
    thinned = Thinned(1, series.samples, len(t), before, sum(len(block.packed) for block in blocks))
    if not dry_run:
        month = series.blocks.values_list("month", flat=True).first()
        for block in blocks:
            block.month = month or months.KEPT
        series.blocks.all().delete()
        Block.objects.bulk_create(blocks)
        Series.objects.filter(pk=pk).update(samples=len(t), thinned_s=width_s)
    return thinned


def _means(series: Series, width_s: float) -> dict[str, Table]:
    """Return group -> its columns, with a row for each interval of `width_s` that has a sample."""
    groups: dict[str, list[Block]] = {}
    for block in series.blocks.order_by("group", "first"):
        groups.setdefault(block.group, []).append(block)
    if "" not in groups:
        return {}
    t = _whole(groups[""], series.samples)["t"]
    bins = np.floor(t / width_s).astype(np.int64)
    _, stretch = np.unique(bins, return_inverse=True)
    return {
        group: {name: mean_of(values, stretch) for name, values in _whole(blocks, series.samples).items()}
        for group, blocks in groups.items()
    }


def _whole(blocks: list[Block], samples: int) -> Table:
    """Return every column over all samples; nan if a block does not have it."""
    names = dict.fromkeys(name for block in blocks for name in block.columns)
    table = {name: np.full(samples, np.nan) for name in names}
    for block in blocks:
        for name, values in block.unpack(block.columns).items():
            table[name][block.first : block.first + block.samples] = values
    return table


def mean_of(values: Floats, stretch: NDArray[np.int64]) -> Floats:
    """Return the mean of each interval, rounded so that it can be stored as an integer; nan if all of it is missing."""
    known = ~np.isnan(values)
    count = np.bincount(stretch, weights=known)
    total = np.bincount(stretch, weights=np.where(known, values, 0.0))
    with np.errstate(invalid="ignore"):
        return np.round(total / np.where(count, count, np.nan), codec.MOST_DECIMALS)


def _packed(series: Series, group: str, table: Table, t: Floats) -> Iterator[Block]:
    for at in range(0, len(t), FULL):
        here = slice(at, at + FULL)
        packed = codec.pack([values[here] for values in table.values()])
        block = Block(series=series, group=group, first=at, columns=list(table), packed=packed)
        block.samples, block.begin, block.end = len(t[here]), float(t[here][0]), float(t[here][-1])
        yield block
