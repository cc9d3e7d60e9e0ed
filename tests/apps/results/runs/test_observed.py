"""Panels of samples, checkpoints as marks, and the cost of collectors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import digest
from apps.campaigns.models import Artefact, Run, RunEvent
from apps.results.runs import observed
from apps.results.store import ingest, series
from tests.contract.test_server_log import V15
from tests.rows import filled

BEGAN = 1795273630.0  # of the measured step, in the log's seconds: after the first checkpoint, before the second
COSTS = {
    "postgresql": {"samples": 4, "cpu_s": 0.004, "apart_s": 0.006, "wall_s": 0.02},
    "cpu": {"samples": 4, "cpu_s": 0.002, "apart_s": 0.0, "wall_s": 0.002},
}
TOTALS = {
    "seconds": 4.1,
    "views": {"pg_stat_database.xact_commit": 2595.0},
    "tables": [{"table": "public.pgbench_accounts", "heap_blks_hit": 17739, "n_tup_upd": 2595}],
    "statements": [{"query": "UPDATE pgbench_branches SET <b>", "calls": 2595, "total_exec_time": 4292.8}],
}
SAMPLES = [
    ("postgresql", {"wait.Lock:transactionid": 3.0, "pg_stat_wal.wal_bytes": 2_000_000.0}),
    ("pressure", {"cpu.some": 12.0}),
]


@pytest.fixture
def run(db: None) -> Run:
    """An ended run whose results were read: postgresql, pressure, a cost, totals, and the log of V15."""
    ended_run: Run = filled.team()["ok_run"]
    Run.objects.filter(pk=ended_run.pk).update(ingested_at=None)
    ended_run.measurements.all().delete()
    ended_run.series.all().delete()
    events = [("sample", {"step": "measure", "source": name, "t": 1.0, "values": values}) for name, values in SAMPLES]
    events.append(("measured", {"step": "measure", "began": BEGAN, "ended": BEGAN + 4.0, "costs": COSTS}))
    for seq, (kind, data) in enumerate(events, start=ended_run.last_seq + 1):
        RunEvent.objects.create(run=ended_run, seq=seq, at=timezone.now(), kind=kind, data=data)
    for path, content in (("out/postgresql.log", V15), ("out/measure/postgresql.json", json.dumps(TOTALS).encode())):
        Artefact.objects.create(run=ended_run, path=path, size=len(content), sha256=digest(path), content=content)
    ingest.ingest(ended_run)
    return ended_run


@pytest.fixture
def browser(run: Run, client: Client) -> Client:
    client.force_login(run.campaign.created_by)
    return client


def test_checkpoints_within_the_step_become_marks_in_its_seconds(run: Run) -> None:
    (mark,) = run.marks.all()

    assert (mark.kind, mark.label, mark.t, mark.until) == ("checkpoint", "wal", 2.959, 4.56)
    assert mark.data == {
        "buffers": 2075, "buffers_percent": 12.7, "write_s": 1.18, "sync_s": 0.371, "total_s": 1.602,
        "distance_kb": 16433,
    }  # fmt: skip


def test_a_checkpoint_that_began_before_the_step_has_a_negative_time(run: Run) -> None:
    run.events.filter(kind="measured").update(
        data={"step": "measure", "began": BEGAN - 0.4, "ended": BEGAN, "costs": {}}
    )
    Run.objects.filter(pk=run.pk).update(ingested_at=None)
    run.marks.all().delete()
    run.series.all().delete()
    run.measurements.all().delete()

    ingest.ingest(run)

    (mark,) = run.marks.all()
    assert (mark.label, mark.t, mark.until) == ("immediate force wait wal", -0.184, 0.207)


def test_costs_are_per_sample_as_a_share_of_one_cpu_and_summed(run: Run) -> None:
    cpu, postgresql, whole = observed.costs_of(run)

    assert (cpu.source, cpu.cpu_ms_per_sample, cpu.cpu_percent) == ("cpu", 0.5, pytest.approx(0.05))
    assert (postgresql.cpu_ms_per_sample, postgresql.wall_ms_per_sample) == (pytest.approx(2.5), pytest.approx(5.0))
    assert (whole.source, whole.cpu_percent) == ("all", pytest.approx(0.3))


def test_a_figure_has_the_requested_panels_and_reads_only_their_series(
    run: Run, browser: Client, django_assert_num_queries: Any
) -> None:
    url = reverse("run_figure", args=[run.pk])

    with django_assert_num_queries(
        10
    ):  # session, user, run, the panels, parts, steps, series of the source, their blocks, marks, what they say
        figure = browser.get(url, {"panel": "postgresql.WAL"}).json()

    lines = {trace.get("meta"): trace["y"] for trace in figure["data"]}
    assert lines["postgresql pg_stat_wal.wal_bytes"] == [2.0]
    assert set(lines) == {"postgresql pg_stat_wal.wal_bytes", None}
    assert figure["layout"]["yaxis"]["title"] == {"text": "MB/s"}


def test_without_a_choice_the_default_panels_are_shown(run: Run, browser: Client) -> None:
    figure = browser.get(reverse("run_figure", args=[run.pk])).json()

    titles = [note["text"] for note in figure["layout"]["annotations"]]
    assert titles == ["wait events (backends)", "WAL (MB/s)", "checkpoints"]


def test_marks_are_lines_through_all_panels_with_details_on_hover(run: Run, browser: Client) -> None:
    figure = browser.get(reverse("run_figure", args=[run.pk])).json()

    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [2.959, 4.56]
    (marks,) = [trace for trace in figure["data"] if trace["name"] == "marks"]
    assert marks["x"] == [2.959, 4.56, None]
    assert "checkpoint at 3.0 s: wal<br>buffers 2,075" in marks["text"][0]


def test_the_page_lists_panels_checkpoints_totals_and_costs(run: Run, browser: Client) -> None:
    page = browser.get(reverse("run_detail", args=[run.pk]), {"panel": "pressure.pressure"})

    text = page.content.decode()
    assert [panel.key for panel in page.context["shown"]] == ["pressure.pressure"]
    assert 'value="pressure.pressure" checked' in text and 'value="postgresql.WAL" data-unasked>' in text
    assert "?panel=pressure.pressure" in page.context["figure"]
    assert "UPDATE pgbench_branches SET &lt;b&gt;" in text
    for heading in ("Checkpoints", "Statistics of PostgreSQL", "Cost of measuring"):
        assert heading in text


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"[" * 100_000, b'{"seconds": 1, "views": {}, "statements": []}']
    + [json.dumps(TOTALS | change).encode() for change in ({"seconds": "1"}, {"tables": [{}]}, {"views": {"a.b": []}})],
)
def test_counters_that_the_collector_does_not_write_are_left_out_of_the_page(
    run: Run, browser: Client, content: bytes
) -> None:
    run.artefacts.filter(path="out/measure/postgresql.json").update(content=content)

    page = browser.get(reverse("run_detail", args=[run.pk]))

    assert page.status_code == 200
    assert "Statistics of PostgreSQL" not in page.content.decode()


def test_totals_have_four_significant_digits(run: Run, browser: Client) -> None:
    statements = [{"query": "select 1", "calls": 3, "total_exec_time": 66.56773}]
    totals = json.dumps(TOTALS | {"statements": statements}).encode()
    run.artefacts.filter(path="out/measure/postgresql.json").update(content=totals)

    text = browser.get(reverse("run_detail", args=[run.pk])).content.decode()

    assert '<td class="number">66.57</td>' in text


def test_the_csv_has_all_samples_with_their_source(run: Run, browser: Client) -> None:
    head = browser.get(reverse("run_csv", args=[run.pk])).getvalue().decode().splitlines()[0]

    assert head.split(",") == [
        "t (s)",
        "postgresql wait.Lock:transactionid (backends)",
        "postgresql pg_stat_wal.wal_bytes (MB/s)",
        "pressure cpu.some (%)",
    ]


def test_the_api_has_marks_costs_and_the_declaration_of_a_column(run: Run, browser: Client) -> None:
    observed = browser.get(f"/api/v1/runs/{run.pk}/observed/").json()
    row = browser.get(f"/api/v1/series/?run={run.pk}&source=pressure").json()["results"][0]
    pressure = browser.get(f"/api/v1/series/{row['id']}/").json()

    assert [(mark["t"], mark["data"]["buffers"]) for mark in observed["marks"]] == [(2.959, 2075)]
    assert [cost["source"] for cost in observed["costs"]] == ["cpu", "postgresql", "all"]
    assert (pressure["declared"]["cpu.some"]["unit"], pressure["declared"]["cpu.some"]["better"]) == ("%", "lower")


def test_an_undeclared_column_is_not_drawn() -> None:
    assert series.panel_of("cpu", "of-another-version") is None
    assert series.panel_of("a collector of the future", "busy") is None


@pytest.mark.parametrize(
    ("source", "name", "title"),
    [
        ("memory", "Cached", "memory (GiB)"),
        ("cpu", "cpu12.busy", "busy per cpu (%)"),
        ("postgresql", "pg_stat_io.client backend.reads", "pg_stat_io reads (1/s)"),
        ("pgbench", "tps", "tps"),
        ("pgbench", "latency_ms", "latency (ms)"),
        ("network", "eth0.100.rx_mb_s", "network per interface (MB/s)"),
    ],
)
def test_a_panel_names_its_unit(source: str, name: str, title: str) -> None:
    panel = series.panel_of(source, name)

    assert panel is not None and panel.title == title
