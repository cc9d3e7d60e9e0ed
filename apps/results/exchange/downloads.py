"""The export formats of a campaign or a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from django.utils.module_loading import import_string

from apps.campaigns.models import Campaign
from apps.results import report
from apps.results.answers import cache_split
from apps.results.exchange import exports


@dataclass(frozen=True)
class Export:
    """One export: its type, the function that writes it, and which campaigns or runs have it."""

    about: str
    content_type: str
    make: Callable[[Any], Iterable[str] | IO[bytes]]
    offered: Callable[[Any], bool] = lambda row: True


def _compares(campaign: Campaign) -> bool:
    """Return whether a campaign has results to report; preparing a data set has none."""
    return campaign.kind != Campaign.Kind.PREPARATION


def _imported_late(path: str) -> Callable[[Any], IO[bytes]]:
    """Return the function at `path`, imported when a file is requested, because its library is slow to load."""
    return lambda row: import_string(path)(row)


PARQUET_FILES = "apps.results.exchange.parquet_files"
CSV, JSON, PARQUET = exports.CSV, "application/json", "application/vnd.apache.parquet"
CAMPAIGN: dict[str, Export] = {
    "report.html": Export(
        "the complete results in one file that opens offline", "text/html; charset=utf-8", report.report_html, _compares
    ),
    "report.pdf": Export(
        "the same for printing, with the runs attached",
        "application/pdf",
        _imported_late("apps.results.report.pdf.report_pdf"),
        _compares,
    ),
    "report.md": Export(
        "text and tables, for a wiki", "text/markdown; charset=utf-8", report.report_markdown, _compares
    ),
    "runs.csv": Export("one row per run, one column per figure", CSV, exports.runs_csv),
    "runs.parquet": Export("the same with types and units", PARQUET, _imported_late(f"{PARQUET_FILES}.runs_parquet")),
    "campaign.json": Export("design, specs, proofs and measurements", JSON, exports.document),
    "campaign-with-series.json": Export(
        "the same with the time series of each run", JSON, partial(exports.document, with_series=True)
    ),
    "series.csv": Export("one row per sample of every run", CSV, exports.series_csv),
    "series.parquet": Export("the same, much smaller", PARQUET, _imported_late(f"{PARQUET_FILES}.series_parquet")),
    "cache-split.csv": Export("the table of the published experiment", CSV, exports.cache_split_csv, cache_split.has),
    "outputs.zip": Export(
        "the original output of the tools, for import elsewhere", "application/zip", exports.outputs_zip
    ),
}
RUN: dict[str, Export] = {
    "series.csv": Export("one row per sample", CSV, exports.run_series_csv),
    "series.parquet": Export("the same, much smaller", PARQUET, _imported_late(f"{PARQUET_FILES}.run_series_parquet")),
}
