"""Distributions of fio's I/O times: each I/O in one bin, and fio's own percentiles."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse

from agents.wire.protocol import digest
from apps.accounts.models import User
from apps.campaigns.models import Artefact, Campaign, Run
from apps.results import charts
from apps.results.models import Measurement
from apps.results.runs import spreads
from readers import measure
from readers.fio.report import parse_fio
from readers.histogram import Histogram
from readers.measure import fio
from tests.rows import split, storage
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db
SAMPLES, CASES = Path(__file__).parents[3] / "samples", Path(__file__).parents[1] / "cases"
PLUS = (CASES / "fio-3.33-json-plus.json").read_bytes()  # as fio wrote it, two sections with reads and writes
PLAIN = sorted(SAMPLES.glob("fio-*document_job.json"))


def keep(run: Run, content: bytes, step: str = "fio") -> None:
    path = f"out/{step}/fio.json"
    Artefact.objects.create(run=run, path=path, size=len(content), sha256=digest(path), content=content)


def slower(content: bytes, times: int) -> bytes:
    """The same report of a disk that takes so many times as long."""
    report = json.loads(content)
    for job in report["jobs"]:
        for way in ("read", "write"):
            job[way]["clat_ns"]["bins"] = {int(ns) * times: n for ns, n in job[way]["clat_ns"]["bins"].items()}
    return json.dumps(report).encode()


@pytest.fixture
def campaign(admin: User) -> Campaign:
    """Two levels of three runs; the second is four times as slow."""
    made = storage.finished(admin, split.host())
    for run in made.runs.all():
        keep(run, PLUS if storage.FAST in run.label else slower(PLUS, 4))
        Measurement.objects.filter(run=run, step="fio").delete()
        Measurement.objects.bulk_create(
            Measurement(run=run, step="fio", name=one.name, value=one.value, unit=one.unit)
            for one in measure.measure("fio", {"fio.json": PLUS}, {})
        )
    return made


def test_every_io_is_counted_once_and_in_a_part_that_holds_its_bin() -> None:
    report = parse_fio(PLUS)
    for job in report.jobs:
        for direction in job.directions.values():
            assert direction.clat and direction.clat.histogram
            histogram = direction.clat.histogram
            for per in (64, 16, 4, 1):
                parts = histogram.stretches(per)
                assert sum(count for *_, count in parts) == direction.total_ios
                assert [high for _, high, _ in parts[:-1]] == [low for low, _, _ in parts[1:]]
                for low, high, count in parts:
                    assert count == sum(n for ns, n in histogram.bins if low <= ns < high)


def test_at_its_finest_a_part_is_a_bin_and_holds_fio_s_percentile() -> None:
    for job in parse_fio(PLUS).jobs:
        for direction in job.directions.values():
            assert direction.clat and direction.clat.histogram
            parts = [part for part in direction.clat.histogram.stretches() if part[2]]
            assert len(parts) == len(direction.clat.histogram.bins)
            for percent, ns in direction.clat.percentiles_ns:
                low, high, _ = next(part for part in parts if part[0] <= ns < part[1])
                below = sum(count for part_low, _, count in parts if part_low < low) / direction.total_ios
                upto = sum(count for part_low, _, count in parts if part_low <= low) / direction.total_ios
                assert below - 1e-9 <= percent / 100 <= upto + 1e-4, (percent, low, high)


def test_fio_s_buckets_say_the_same_as_its_bins() -> None:
    for job in parse_fio(PLUS).jobs:
        bins = [
            pair
            for direction in job.directions.values()
            if direction.clat and direction.clat.histogram
            for pair in direction.clat.histogram.bins
        ]
        total = sum(count for _, count in bins)
        parts = Histogram.merged([Histogram((pair,)) for pair in bins]).stretches()
        for bucket in job.buckets:
            within = sum(n for low, high, n in parts if bucket.low_ns <= low and high <= bucket.high_ns)
            touched = sum(n for low, high, n in parts if low < bucket.high_ns and high > bucket.low_ns)
            assert 100 * within / total - 0.001 <= bucket.percent <= 100 * touched / total + 0.01, bucket


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_buckets_of_every_version_add_up_to_all_ios(path: Path) -> None:
    for job in (job for job in parse_fio(path.read_bytes()).jobs if job.directions):
        assert sum(bucket.percent for bucket in job.buckets) == pytest.approx(100, abs=0.1)
        assert [one.high_ns for one in job.buckets[:-1]] == [one.low_ns for one in job.buckets[1:]]


def test_bins_of_whole_microseconds_are_as_wide() -> None:
    assert Histogram(((16000, 5), (18000, 1)), unit_ns=1000).stretches() == [
        (16000, 17000, 5),
        (17000, 18000, 0),
        (18000, 19000, 1),
    ]


def test_a_run_has_a_row_for_each_section_and_an_outline_for_each_direction(campaign: Campaign) -> None:
    spread = spreads.of_run(campaign.runs.order_by("position")[0], "fio")

    assert [(entry.row, entry.way) for entry in spread.entries] == [
        ("mixed", "read"), ("mixed", "write"), ("synced", "read"), ("synced", "write")
    ]  # fmt: skip
    ways = {way.title: way for section in fio.latencies(PLUS) for way in section.ways}
    assert [entry.count for entry in spread.entries] == [way.count for way in ways.values()]
    for entry in spread.entries:
        assert sum(share for *_, share in entry.parts) == pytest.approx(1)
        assert len(entry.parts) <= spreads.MOST_PARTS


def test_the_marks_are_percentiles_of_fio(campaign: Campaign) -> None:
    run = next(run for run in campaign.runs.all() if storage.FAST in run.label)
    read = spreads.of_run(run, "fio").entries[0]
    own = dict(parse_fio(PLUS).jobs[0].directions["read"].clat.percentiles_ns)  # type: ignore[union-attr]

    assert read.marks == {at: own[at] / 1e6 for at in (50.0, 99.0, 99.9)}


def test_a_percentile_that_one_io_decides_is_not_marked(campaign: Campaign) -> None:
    run, report = campaign.runs.all()[0], json.loads(PLUS)
    for job in report["jobs"]:
        for way in ("read", "write"):
            job[way] |= {"total_ios": 500}
            job[way]["clat_ns"] |= {"N": 500, "bins": {"100000": 499, "900000": 1}}
    run.artefacts.filter(path="out/fio/fio.json").update(content=json.dumps(report).encode())

    outlines = spreads.of_run(run, "fio").entries

    assert [(outline.count, set(outline.marks)) for outline in outlines] == [(500, {50.0, 99.0})] * len(
        outlines
    ) and outlines


def test_plain_json_has_one_outline_of_all_directions_and_the_percentiles_of_each(campaign: Campaign) -> None:
    run = campaign.runs.order_by("position")[0]
    run.artefacts.all().delete()
    keep(run, (SAMPLES / "fio-3.1-document_job.json").read_bytes())

    outlines = spreads.of_run(run, "fio").entries

    first = [outline for outline in outlines if outline.row == outlines[0].row]
    assert [(one.way, bool(one.parts), bool(one.marks)) for one in first] == [
        ("", True, False), ("read", False, True), ("write", False, True)
    ]  # fmt: skip
    assert first[1].marks[50.0] == pytest.approx(0.432128)


def test_levels_are_below_each_other_with_the_ios_of_all_their_runs(campaign: Campaign) -> None:
    spread = spreads.of_levels(campaign, "fio", "mixed")

    alone = parse_fio(PLUS).jobs[0].directions["read"].total_ios
    reads = {entry.row: entry for entry in spread.entries if entry.way == "read"}
    assert len(spread.rows) == 2 and [one.count for one in reads.values()] == [3 * alone] * 2
    fast = next(one for row, one in reads.items() if storage.FAST in row)
    slow = next(one for row, one in reads.items() if storage.FAST not in row)
    assert slow.marks[50.0] / fast.marks[50.0] == pytest.approx(4, rel=0.02)


def test_a_level_that_has_not_run_well_has_no_row(campaign: Campaign) -> None:
    failed = campaign.runs.filter(cell=campaign.runs.order_by("position")[0].cell)
    failed.update(outcome=Run.Outcome.FAILED)

    assert len(spreads.of_levels(campaign, "fio", "mixed").rows) == 1


def test_omitted_levels_and_runs_are_named(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreads, "MOST_LEVELS", 1)
    monkeypatch.setattr(spreads, "MOST_RUNS", 2)

    spread = spreads.of_levels(campaign, "fio", "synced")

    assert len(spread.rows) == 1
    assert spread.note == "the first 1 of 2 levels, the first 2 runs of each level"


def test_the_area_of_an_outline_is_all_ios(campaign: Campaign) -> None:
    figure = charts.spread_chart(spreads.of_levels(campaign, "fio", "mixed"), charts.LIGHT)

    assert go.Figure(figure).data
    outlines = [trace for trace in figure["data"] if trace.get("fill")]
    assert len(outlines) == 4
    for trace in outlines:
        x, y = trace["x"], trace["y"]
        area = sum(y[at] * math.log2(x[at + 1] / x[at]) for at in range(len(x) - 1))
        assert area == pytest.approx(1) and y[-1] == 0.0


def test_no_line_crosses_values_that_were_not_measured() -> None:
    apart = spreads.Spread("io", "read", 2, [(1.0, 2.0, 0.5), (8.0, math.inf, 0.5)], {})

    (trace,) = charts.spread_chart(spreads.Spreads([apart]), charts.DARK)["data"]

    assert list(zip(trace["x"], trace["y"], strict=True)) == [
        (1.0, 0.0), (1.0, 0.5), (2.0, 0.0), (8.0, 0.0), (8.0, 0.5), (16.0, 0.0)
    ]  # fmt: skip
    assert "8 ms or more" in trace["text"][4]


def test_the_pages_show_the_distributions(client: Client, campaign: Campaign, viewer: User) -> None:
    run = campaign.runs.order_by("position")[0]
    client.force_login(viewer)

    of_run = client.get(reverse("run_detail", args=[run.pk])).content.decode()
    of_campaign = client.get(reverse("campaign_detail", args=[campaign.pk]), {"section": "fio/synced"}).content.decode()

    assert f"{reverse('run_spread', args=[run.pk])}?step=fio" in of_run and "mixed read clat_p99 " in of_run
    address = f"{reverse('campaign_spread', args=[campaign.pk])}?section=fio%2Fsynced"
    assert address in of_campaign and '<option value="fio/synced" selected>fio synced</option>' in of_campaign
    for url in (f"{reverse('run_spread', args=[run.pk])}?step=fio", address):
        assert client.get(url).json()["data"]
    assert client.get(reverse("run_spread", args=[run.pk])).status_code == 404
    assert client.get(reverse("campaign_spread", args=[campaign.pk]), {"section": "fio"}).status_code == 404


def test_the_csv_has_the_bins_of_fio(client: Client, campaign: Campaign, viewer: User) -> None:
    run = next(run for run in campaign.runs.all() if storage.FAST in run.label)
    client.force_login(viewer)

    answer = client.get(reverse("run_spread_csv", args=[run.pk]), {"step": "fio"})

    head, *rows = b"".join(answer).decode().splitlines()  # type: ignore[arg-type]
    counted = [row.split(",") for row in rows]
    assert head == "section,direction,from (ms),to (ms),I/Os,share (%)"
    bins = parse_fio(PLUS).jobs[0].directions["write"].clat.histogram.bins  # type: ignore[union-attr]
    assert [int(row[4]) for row in counted if row[:2] == ["mixed", "write"]] == [count for _, count in bins]


def test_a_campaign_without_fio_asks_nothing_more(admin: User, django_assert_num_queries: Any) -> None:
    other = Campaign.objects.select_related("workload").get(pk=make_campaign(Campaign.State.FINISHED, by=admin).pk)

    with django_assert_num_queries(0):
        assert spreads.sections_of(other) == {}


def test_the_number_of_queries_of_levels_does_not_grow_with_runs(
    campaign: Campaign, django_assert_num_queries: Any
) -> None:
    reloaded = Campaign.objects.select_related("workload").get(pk=campaign.pk)

    with django_assert_num_queries(2):
        spreads.of_levels(reloaded, "fio", "mixed")
    with django_assert_num_queries(2):
        spreads.sections_of(reloaded)
