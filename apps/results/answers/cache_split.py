"""The results of a campaign of the recipe cache-split, as the table of its published experiment. Only reads (SELECT).

Columns: reserved pages of 2 MiB, size of shared_buffers, mean latencies of the lookups before and after the scan and
of the scan, blocks of the table and its index. If the kernel did not provide the huge pages, a row has two fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from apps.campaigns.models import Campaign, Run
from apps.campaigns.recipes.scale import spelled
from apps.tuning import gucs
from readers.others.huge_page_csv import HUGEPAGE_ERROR

BLOCKS = ("heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit")
LATENCIES = (("idx1", "latency_avg"), ("seq", "elapsed_mean"), ("idx2", "latency_avg"))
FIGURES = (*LATENCIES, ("blocks", "huge_pages"), *(("blocks", name) for name in BLOCKS))
BLOCK_KB = 8  # unit of shared_buffers without a unit


def has(campaign: Campaign) -> bool:
    """Return whether its workload measures the columns of the table."""
    return {step for step, _ in FIGURES} <= {step["name"] for step in campaign.steps}


def rows(runs: Iterable[Run]) -> Iterator[Sequence[Any]]:
    """Yield a row for each run, in order. Runs that failed for other reasons, or measured something else, have none."""
    for run in runs:
        figures = {(measurement.step, measurement.name): measurement.value for measurement in run.measurements.all()}
        if run.outcome == Run.Outcome.NOT_IN_EFFECT and run.ended_at:
            yield HUGEPAGE_ERROR, run.ended_at.isoformat()
        elif run.outcome == Run.Outcome.OK and set(FIGURES) <= figures.keys() and _kib(run):
            yield _row(run, figures)


def _row(run: Run, figures: dict[tuple[str, str], float]) -> Sequence[Any]:
    whole = {name: int(figures["blocks", name]) for name in ("huge_pages", *BLOCKS)}
    kib = _kib(run)
    latencies = [figures[latency] for latency in LATENCIES]
    ended = run.ended_at.isoformat() if run.ended_at else ""
    return [whole["huge_pages"], spelled(kib), kib, *latencies, *(whole[name] for name in BLOCKS), ended]


def _kib(run: Run) -> int:
    """Return its shared_buffers in KiB; 0 if the run uses PostgreSQL's default."""
    shared_buffers = str(run.spec["settings"].get("postgresql", {}).get("shared_buffers", ""))
    match = gucs.QUANTITY.match(shared_buffers)
    if not match:
        return 0
    number, unit = float(match.group(1)), match.group(2)
    return round(number * gucs.MEMORY[unit] / 1024 if unit else number * BLOCK_KB)
