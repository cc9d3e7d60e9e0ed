"""Tables of a campaign as Parquet, with types and units. Only reads (SELECT). Import this module late, because Arrow
is slow to load."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as arrow
from pyarrow import parquet

from apps.campaigns.models import Campaign, Run
from apps.results.exchange.exports import (
    AFTER,
    BEFORE,
    SERIES_HEAD,
    FigureColumn,
    figures_of,
    runs_of,
    series_rows,
    table_row,
)
from apps.results.models import Series

GROUP = 50_000


def runs_parquet(campaign: Campaign) -> IO[bytes]:
    """Return the table of runs with typed columns. Their metadata have unit, better direction and definition of each
    figure."""
    figures, factors = figures_of(campaign), [factor["name"] for factor in campaign.factors]
    head = [*BEFORE, *factors, *AFTER, *(figure.header for figure in figures)]
    text = {name: arrow.string() for name in head}
    times = {name: arrow.timestamp("us", tz="UTC") for name in ("started_at", "ended_at")}
    types = {**text, **times, "position": arrow.int32(), "block": arrow.int32()}
    fields = [arrow.field(name, types[name]) for name in head[: len(head) - len(figures)]]
    fields += [arrow.field(figure.header, arrow.float64(), metadata=_metadata(figure)) for figure in figures]
    schema = arrow.schema(fields, metadata=_identity(campaign))
    rows = (_typed(run, factors, figures) for run in runs_of(campaign))
    return _parquet(schema, rows)


def _identity(campaign: Campaign) -> dict[str, str]:
    return {
        "campaign": campaign.name,
        "question": campaign.question,
        "host": campaign.host.name,
        "id": str(campaign.pk),
    }


def _metadata(figure: FigureColumn) -> dict[str, str]:
    return {"step": figure.step, "name": figure.name, "unit": figure.unit}


def _typed(run: Run, factors: list[str], figures: list[FigureColumn]) -> list[Any]:
    """Return a row of the table of runs with typed times, and None for empty cells."""
    row = [None if cell == "" else cell for cell in table_row(run, factors, figures)]
    begin = len(BEFORE) + len(factors) + AFTER.index("started_at")
    row[begin : begin + 2] = [run.started_at, run.ended_at]
    return row


def series_parquet(campaign: Campaign) -> IO[bytes]:
    return _series_parquet(Series.objects.filter(run__campaign=campaign))


def run_series_parquet(run: Run) -> IO[bytes]:
    return _series_parquet(run.series.all())


def _series_parquet(stored: Any) -> IO[bytes]:
    word = arrow.dictionary(arrow.int32(), arrow.string())
    types = (word, arrow.int32(), word, word, arrow.float64(), word, arrow.float64())
    schema = arrow.schema([arrow.field(*pair) for pair in zip(SERIES_HEAD, types, strict=True)])
    return _parquet(schema, series_rows(stored))


def _parquet(schema: Any, rows: Iterable[Sequence[Any]]) -> IO[bytes]:
    """Write groups of rows, so that memory does not depend on the length of a campaign."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the response closes it
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _batched(rows, GROUP):
            cells = zip(zip(*group, strict=True), schema, strict=True)
            columns = [arrow.array(column, type=field.type) for column, field in cells]
            writer.write_batch(arrow.record_batch(columns, schema=schema))
    file.seek(0)
    return file


def _batched(rows: Iterable[Sequence[Any]], size: int) -> Iterator[list[Sequence[Any]]]:
    iterator = iter(rows)
    while group := list(itertools.islice(iterator, size)):
        yield group
