"""The table of the cache-split experiment: exported, and imported with the same figures."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.results.exchange import exports
from apps.results.models import Measurement
from readers.others.huge_page_csv import COLUMNS, parse_huge_page_csv
from tests.apps.results.exchange.test_imports import imported
from tests.rows.factories import browser, make_campaign, make_host
from tests.servers import machine

SIZES = ("1GB", "128kB")
LEVELS = ["1GB, off", "1GB, on", "128kB, off", "128kB, on"]
FIGURES = {
    ("idx1", "latency_avg"): 0.071,
    ("seq", "elapsed_mean"): 36.389,
    ("idx2", "latency_avg"): 0.103,
    ("blocks", "heap_blks_read"): 4134.0,
    ("blocks", "heap_blks_hit"): 1274.0,
    ("blocks", "idx_blks_read"): 207.0,
    ("blocks", "idx_blks_hit"): 396.0,
    ("blocks", "huge_pages"): 0.0,
}


def ended(run: Run, outcome: str, second: int) -> None:
    """A run as the agent's figures would leave it; each differs a little from the others."""
    at = datetime(2026, 11, 21, 0, 57, second, tzinfo=UTC)
    fields = {"outcome": outcome, "started_at": at, "ended_at": at, "ingested_at": at, "next_tick_at": None}
    Run.objects.filter(pk=run.pk).update(state=Run.State.ENDED, **fields)
    if outcome == Run.Outcome.OK:
        pages = {("blocks", "huge_pages"): 607.0 if run.cell["huge pages"] == "on" else 0.0}
        figures = {name: value + second for name, value in FIGURES.items()} | pages
        Measurement.objects.bulk_create(
            Measurement(run=run, step=step, name=name, value=value, unit="ms", better="lower")
            for (step, name), value in figures.items()
        )


@pytest.fixture
def campaign(operator: User) -> Campaign:
    """Two sizes with and without huge pages, twice; the kernel granted no pages to one run, and one failed."""
    host = make_host(level="root", facts=machine.facts())
    levels = [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in SIZES]
    factors = [{"name": "shared_buffers", "order": "descending", "levels": levels}]
    factors.append(copy.deepcopy(recipes.get("cache-split")["factors"][1]))
    fields: dict[str, Any] = {"host": host, "recipe": "cache-split", "factors": factors, "repetitions": 2, "seed": 1}
    made = services.create_from_recipe(by=operator, **fields)
    services.start_campaign(made, by=operator)
    refused = {2: Run.Outcome.NOT_IN_EFFECT, 5: Run.Outcome.FAILED}
    for run in made.runs.order_by("position"):
        ended(run, refused.get(run.position, Run.Outcome.OK), run.position)
    return made


def table(campaign: Campaign) -> bytes:
    return "".join(exports.cache_split_csv(campaign)).encode()  # type: ignore[arg-type]


@pytest.mark.django_db
def test_the_table_has_the_columns_of_the_experiment_and_is_read_by_their_parser(campaign: Campaign) -> None:
    parsed = parse_huge_page_csv(table(campaign))

    assert table(campaign).splitlines()[0].decode() == ",".join(COLUMNS)
    assert [(cell.shared_buffers, cell.shared_buffers_kib) for cell in parsed.cells] == [
        *[("1GB", 1048576)] * 2, ("128kB", 128), ("1GB", 1048576), *[("128kB", 128)] * 2,
    ]  # fmt: skip
    assert {cell.huge_pages for cell in parsed.cells} == {0, 607}
    first = parsed.cells[0]
    assert (first.idx1_ms, first.seq_ms, first.heap_blks_read, first.idx_blks_hit) == (0.071, 36.389, 4134, 396)
    assert [(each.why, each.finished_at.second) for each in parsed.not_measured] == [("hugepage_error", 2)]


@pytest.mark.django_db
def test_an_import_of_an_export_has_the_same_figures(campaign: Campaign, operator: User) -> None:
    columns = {"huge_pages(2MiB)": {"as": "factor", "name": "huge pages", "levels": {"0": "off", "*": "on"}}}

    again = imported(operator, ("cache-split.csv", table(campaign)), columns=columns, metric="idx1")

    assert figures(again, "measure") == figures(campaign, "")
    assert len(figures(again, "measure")) == 6 * 7


def figures(campaign: Campaign, step: str) -> list[tuple[str, str, str, float]]:
    """Level, figure and value of every measurement, without the pages, which an import makes a factor of."""
    names = {("idx1", "latency_avg"): "idx1", ("seq", "elapsed_mean"): "seq", ("idx2", "latency_avg"): "idx2"}
    rows = Measurement.objects.filter(run__campaign=campaign).exclude(name="huge_pages").select_related("run")
    sizes = ("shared_buffers", "pg_cache")
    return sorted(
        (next(row.run.cell[size] for size in sizes if size in row.run.cell), row.run.cell["huge pages"],
         row.name if step else names.get((row.step, row.name), row.name), row.value)
        for row in rows
    )  # fmt: skip


@pytest.mark.django_db
def test_only_a_campaign_that_measured_it_offers_the_table(campaign: Campaign, operator: User) -> None:
    page, other = browser(operator), make_campaign(Campaign.State.FINISHED)

    assert b"cache-split.csv" in page.get(reverse("campaign_detail", args=[campaign.pk])).content
    assert b"cache-split.csv" not in page.get(reverse("campaign_detail", args=[other.pk])).content


@pytest.mark.django_db
def test_a_run_that_leaves_shared_buffers_to_postgresql_has_no_row(operator: User) -> None:
    host = make_host(level="root", facts=machine.facts())
    steps = recipes.steps(recipes.get("cache-split"), machine.facts(directories=["/var/lib/x"]))
    factors = [{"name": "as it is", "levels": [{"label": "default", "set": {}}]}]
    made = services.create_campaign(
        by=operator, host=host, name="n", question="q", workload=workloads.recipe_workload("split", steps, operator),
        factors=factors, repetitions=1, metric="idx1.latency_avg",
    )  # fmt: skip
    services.start_campaign(made, by=operator)
    run = made.runs.get()
    run.cell = {"huge pages": "off"}

    ended(run, Run.Outcome.OK, 0)

    assert table(made).decode().strip() == ",".join(COLUMNS)
