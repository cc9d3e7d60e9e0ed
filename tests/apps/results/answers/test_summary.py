"""The table of all measured steps: figures, levels and numbers of runs."""

from __future__ import annotations

import csv
import io
import math

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.library.workloads import save_workload
from apps.campaigns.models import Campaign, Run
from apps.results.answers.summary import HEAD, SummaryCell, summary_table
from apps.results.models import Measurement
from apps.results.templatetags.runs import mean_text
from tests.rows.factories import browser, make_campaign

pytestmark = pytest.mark.django_db

STEPS = [
    {"name": "load", "role": "prepare", "kind": "pgbench", "options": {}},
    {"name": "oltp", "role": "measure", "kind": "pgbench", "options": {}},
    {"name": "io", "role": "measure", "kind": "fio", "options": {}},
]


def yields(run: Run, step: str, name: str, value: float, unit: str = "", better: str = "higher") -> None:
    Measurement.objects.create(run=run, step=step, name=name, value=value, unit=unit, better=better)


@pytest.fixture
def campaign(admin: User) -> Campaign:
    """Two levels, three runs each, of which the last one failed; fio has two sections."""
    workload = save_workload("storage-and-oltp", STEPS, by=admin)
    made = make_campaign(Campaign.State.FINISHED, by=admin, workload=workload, metric="oltp.tps")
    Measurement.objects.all().delete()
    for place, run in enumerate(made.runs.order_by("position")):
        slow = 2.0 if run.label == "2 cpus" else 1.0
        yields(run, "oltp", "tps", 1000.0 / slow + run.block, "tps")
        yields(run, "oltp", "transactions", 1.0)
        yields(run, "oltp", "latency_avg", 2.0 * slow, "ms", "lower")
        yields(run, "io", "rand iops", 100.0 / slow, "IOPS")
        yields(run, "io", "rand read clat_p99", 5.0 * slow, "ns", "lower")
        yields(run, "io", "rand read slat_mean", 5.0, "ns", "lower")
        yields(run, "io", "seq read bw", 0.0, "KiB/s")
        if place == 5:
            Run.objects.filter(pk=run.pk).update(outcome=Run.Outcome.FAILED)
    return made


def test_the_main_figures_of_each_step_in_order(campaign: Campaign) -> None:
    table = summary_table(campaign)

    assert [(figure.step, figure.name, figure.unit, figure.better) for figure in table.figures] == [
        ("oltp", "tps", "tps", "higher"),
        ("oltp", "latency_avg", "ms", "lower"),
        ("io", "rand iops", "IOPS", "higher"),
        ("io", "rand read clat_p99", "ns", "lower"),
        ("io", "seq read bw", "KiB/s", "higher"),
    ]
    assert table.levels == ["1 cpu", "2 cpus"] and table.adds


def test_a_cell_is_of_the_ok_runs_of_its_level(campaign: Campaign) -> None:
    failed = campaign.runs.get(outcome=Run.Outcome.FAILED)

    tps, *_ = summary_table(campaign).figures

    by_level = {cell.level: cell for cell in tps.cells}
    other = next(label for label in by_level if label != failed.label)
    assert (by_level[failed.label].n, by_level[other].n) == (2, 3)
    blocks = [run.block for run in campaign.runs.filter(outcome=Run.Outcome.OK) if run.label == other]
    values = [(1000.0 if other == "1 cpu" else 500.0) + block for block in blocks]
    assert by_level[other].mean == pytest.approx(math.prod(values) ** (1 / 3))
    assert by_level[other].low < by_level[other].mean < by_level[other].high


def test_a_figure_that_is_zero_has_a_plain_mean_and_no_interval(campaign: Campaign) -> None:
    bandwidth = summary_table(campaign).figures[-1]

    assert {(cell.mean, cell.low, cell.high) for cell in bandwidth.cells} == {(0.0, None, None)}


def test_an_unknown_figure_is_shown_if_it_has_a_direction(campaign: Campaign) -> None:
    Measurement.objects.all().delete()
    for run in campaign.runs.all():
        yields(run, "imported", "idx1", 0.08, "ms", "lower")
        yields(run, "imported", "heap_blks_read", 5.0, "blocks", "")

    (figure,) = summary_table(campaign).figures

    assert (figure.step, figure.name) == ("imported", "idx1")


def test_a_level_without_runs_is_empty(campaign: Campaign) -> None:
    Measurement.objects.filter(run__in=[run for run in campaign.runs.all() if run.label == "2 cpus"]).delete()

    tps, *_ = summary_table(campaign).figures

    assert [(cell.level, cell.n, cell.mean) for cell in tps.cells][1] == ("2 cpus", 0, None)


def test_page_csv_and_api_say_the_same(client: Client, campaign: Campaign, admin: User) -> None:
    client.force_login(admin)
    table = summary_table(campaign)

    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    as_csv = client.get(reverse("campaign_summary", args=[campaign.pk])).getvalue().decode()
    rows = list(csv.reader(io.StringIO(as_csv)))
    summary = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/summary/").json()

    assert "All steps in one table" in page and "rand read clat_p99" in page
    assert rows[0] == list(HEAD) and len(rows) == 1 + len(table.figures) * len(table.levels)
    by_level = [figure["cells"] for figure in table.as_dict()["figures"]]
    assert [figure["by_level"] for figure in summary["figures"]] == by_level
    assert (summary["factor_names"], summary["levels"]) == (table.factor_names, table.levels)
    assert rows[1][:3] == ["1 cpu", "oltp", "tps"] and float(rows[1][7]) == by_level[0][0]["mean"]


def test_a_page_shows_figures_in_readable_units(campaign: Campaign) -> None:
    Measurement.objects.filter(name="rand read clat_p99").update(value=2_500_000)
    Measurement.objects.filter(name="seq read bw").update(value=2048)

    table = summary_table(campaign)

    shown = {one.name: (one.unit, one.cells[0].mean) for one in table.shown}
    assert shown["rand read clat_p99"] == ("ms", pytest.approx(2.5)) and shown["seq read bw"] == (
        "MiB/s",
        pytest.approx(2),
    )
    assert {figure.name: figure.unit for figure in table.figures}["rand read clat_p99"] == "ns"


def test_a_campaign_of_one_figure_has_no_second_table(client: Client, admin: User) -> None:
    client.force_login(admin)
    campaign = make_campaign(Campaign.State.FINISHED, by=admin)

    assert "All steps in one table" not in client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()


def test_the_number_of_queries_does_not_grow_with_runs(campaign: Campaign, django_assert_num_queries: object) -> None:
    fresh = Campaign.objects.select_related("workload").get(pk=campaign.pk)

    with django_assert_num_queries(2):  # type: ignore[operator]
        summary_table(fresh)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (SummaryCell("off", 5, 1.5, 1.25, 1.75), '1.5<br><span class="muted nowrap">1.25 to 1.75, n = 5</span>'),
        (SummaryCell("off", 2, 1.5), '1.5<br><span class="muted nowrap">n = 2</span>'),
        (SummaryCell("off", 0), "\u2013"),
    ],
)
def test_a_cell_shows_mean_interval_and_number_of_runs(cell: SummaryCell, shown: str) -> None:
    assert mean_text(cell) == shown
