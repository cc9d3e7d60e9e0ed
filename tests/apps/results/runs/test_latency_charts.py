"""Charts of latencies: no percentile without a transaction beyond it, each transaction in the heat map once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.histogram import Histogram, bucket_of
from agents.wire.protocol import digest
from apps.accounts.models import User
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent
from apps.results import charts
from apps.results.models import Measurement
from apps.results.runs import latencies
from apps.results.runs.time_axis import Axis
from readers.latency import parse_latency
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db
FIRST = 1_780_000_000  # by the wall clock, when the first transaction ended
WHOLE = Axis(())
SAMPLES = Path(__file__).parents[3] / "samples"


def report(*seconds: list[int], first: int = FIRST) -> bytes:
    """latency.json with these transaction times in us, second by second."""
    every = Histogram()
    every.add([us for second in seconds for us in second], [1] * sum(map(len, seconds)))
    rows = []
    for place, second in enumerate(seconds):
        counted: dict[int, int] = {}
        for us in second:
            counted[bucket_of(us, latencies.SLOT_BITS)] = counted.get(bucket_of(us, latencies.SLOT_BITS), 0) + 1
        rows.append([first + place, sorted(counted.items())])
    distribution = {**every.as_json(), "words": {}}
    return json.dumps(
        {
            "version": 1, "loop": "closed", "sampling_rate": 1, "lines": every.count, "unread": 0, "all": distribution,
            "scripts": [{**distribution, "name": "select"}], "lag": None, "retried": None, "retries": None,
            "slots": {"width_s": 1, "rows": rows},
        }
    ).encode()  # fmt: skip


def keep(run: Run, path: str, content: bytes) -> None:
    Artefact.objects.create(run=run, path=path, size=len(content), sha256=digest(str(content)), content=content)


@pytest.fixture
def run(admin: User) -> Run:
    return make_campaign(Campaign.State.FINISHED, by=admin).runs.order_by("position")[0]


def test_percentiles_add_a_nine_at_each_tick() -> None:
    percents = latencies.percents()

    assert percents == sorted(set(percents))
    assert {50, 90, 99, 99.9, 99.99, 99.999} <= set(percents)


def test_a_percentile_is_shown_where_more_than_one_transaction_lies_beyond(run: Run) -> None:
    keep(run, "out/measure/latency.json", report(list(range(1000, 2000))))

    (curve,) = latencies.curves_of(run)

    assert (curve.count, curve.percents[-1] < 99.9, 99 in curve.percents) == (1000, True, True)
    assert curve.ms[curve.percents.index(99)] == pytest.approx(1.99, rel=0.01)
    assert curve.ms == sorted(curve.ms)


def test_fio_has_a_curve_for_each_section_and_direction(run: Run) -> None:
    document = json.loads((SAMPLES / "fio-3.33-document_job.json").read_text())
    for job in document["jobs"]:
        for way in ("read", "write"):
            job[way]["clat_ns"]["bins"] = {"100000": 900, "200000": 80, "1000000": 15, "5000000": 5}
    keep(run, "out/io/fio.json", json.dumps(document).encode())

    curves = latencies.curves_of(run)

    assert len(curves) == 8 and all(curve.name.startswith("io ") for curve in curves)
    assert [curves[0].ms[curves[0].percents.index(at)] for at in (50, 95, 99)] == [0.1, 0.2, 1.0]


def test_the_heat_map_has_every_transaction_once(run: Run) -> None:
    keep(run, "out/measure/latency.json", report([900, 950, 60_000], [], [1000]))

    heat = latencies.heat_of(run, "measure", WHOLE)

    assert heat is not None and heat.counts.sum() == 4
    assert [column.sum() for column in heat.counts.T] == [3, 0, 1]
    row = int(np.argmax(heat.counts[:, 2]))
    assert len(heat.edges) == len(heat.counts) + 1 and heat.edges[row] <= 1.0 < heat.edges[row + 1]


def test_the_heat_map_has_the_time_axis_of_the_run(client: Client, run: Run, viewer: User) -> None:
    for seq, (step, began) in enumerate({"load": FIRST - 60.0, "measure": FIRST - 2.5}.items(), start=9001):
        RunEvent.objects.create(
            run=run, seq=seq, at=timezone.now(), kind="measuring", data={"step": step, "began": began}
        )
    keep(run, "out/measure/latency.json", report(*[[1000]] * 3000))
    client.force_login(viewer)
    address = reverse("run_latency", args=[run.pk, "heat"])

    whole, closer = (
        client.get(address, {"step": "measure", **part}).json() for part in ({}, {"from": "99.9", "to": "110"})
    )

    assert whole["steps"]["measure"] == 57.5 and whole["data"][0]["x"][0] == 60.0
    assert len(whole["data"][0]["x"]) == 1001 and "range" not in whole["layout"]["xaxis"]
    assert closer["data"][0]["x"] == [99.0 + place for place in range(13)]  # edges of 12 cells
    assert closer["layout"]["xaxis"]["range"] == [99.9, 110.0]


def test_a_part_of_the_time_in_which_nothing_ended_is_empty(run: Run) -> None:
    keep(run, "out/measure/latency.json", report([1000]))

    heat = latencies.heat_of(run, "measure", Axis((), 50.0, 60.0))

    assert heat is not None and heat.t == []
    assert charts.heat_chart(heat, WHOLE, charts.LIGHT)["data"][0]["x"] == []


def heat_figure(*seconds: list[int]) -> charts.Figure:
    heat = latencies._heat(parse_latency(report(*seconds)), FIRST, 0.0, WHOLE)
    assert heat is not None
    return charts.heat_chart(heat, WHOLE, charts.LIGHT)


def test_a_cell_lies_from_the_beginning_of_its_second_to_its_end() -> None:
    cells = heat_figure([1000], [1000], [2000])["data"][0]

    assert cells["x"] == [0.0, 1.0, 2.0, 3.0]
    assert cells["z"].shape == (len(cells["y"]) - 1, len(cells["x"]) - 1)


def test_a_few_outliers_leave_the_plot_to_the_others() -> None:
    usual = list(range(900, 2000)) * 3
    cells, slow, quick = heat_figure(usual, [*usual, 4_000_000], [*usual, 20])["data"]

    bulk = np.log10(2.0 / 0.9)
    whole = np.log10(slow["y"][-1] / quick["y"][0])
    assert bulk > 0.6 * whole
    assert [each["text"].sum() for each in (slow, quick)] == [1, 1]
    assert slow["text"][0].tolist() == [0, 1, 0] and "longer than" in slow["hovertemplate"]
    assert sum(each["text"].sum() for each in (cells, slow, quick)) == 3 * len(usual) + 2


def test_rows_of_outliers_are_named_on_the_axis_and_counted_below_it() -> None:
    drawn = heat_figure([*list(range(900, 2000)) * 3, 4_000_000])["layout"]

    (label,) = (text for text in drawn["yaxis"]["ticktext"] if text.startswith(">"))
    assert f"1 of 3,301 transactions took longer than {label[2:]} ms, up to" in drawn["xaxis"]["title"]["text"]


def test_latencies_near_each_other_have_no_row_of_outliers() -> None:
    assert len(heat_figure(list(range(900, 2000)))["data"]) == 1


def test_the_charts_are_ones_that_plotly_accepts(run: Run) -> None:
    keep(run, "out/measure/latency.json", report([900, 950, 60_000], [1000, 1100]))
    heat = latencies.heat_of(run, "measure", WHOLE)
    statements = [
        latencies.StatementLatency("statement:1", "select <b>1</b> from pgbench_accounts where aid = :aid;", 0.4)
    ]
    assert heat is not None

    figures = [
        charts.nines_chart(latencies.curves_of(run), charts.LIGHT),
        charts.heat_chart(heat, WHOLE, charts.DARK),
        charts.statement_chart(statements, charts.LIGHT),
    ]

    assert all(go.Figure(figure).data for figure in figures)
    assert "<b>" not in str(figures[2])


def test_a_report_that_cannot_be_read_has_no_curve(run: Run) -> None:
    keep(run, "out/measure/latency.json", b"{")

    assert (latencies.curves_of(run), latencies.heat_of(run, "measure", WHOLE)) == ([], None)


def test_the_page_of_a_run_offers_the_charts_that_it_has_data_for(client: Client, run: Run, viewer: User) -> None:
    keep(run, "out/measure/latency.json", report([900]))
    Measurement.objects.create(
        run=run, step="measure", name="statement:1 latency", value=0.4, unit="ms", better="lower"
    )
    client.force_login(viewer)

    html = client.get(reverse("run_detail", args=[run.pk])).content.decode()

    for name, query in (("nines", ""), ("heat", "?step=measure"), ("statements", "")):
        address = reverse("run_latency", args=[run.pk, name]) + query
        assert f'data-figure="{address}"' in html
        assert f'id="run-{name}-1" data-later' in html, "a run of many steps would request all of its charts at once"
        assert client.get(address).json()["data"]
    assert client.get(reverse("run_latency", args=[run.pk, "heat"])).status_code == 404


def test_statements_are_in_the_order_of_their_numbers_and_meta_commands_are_not_listed(run: Run) -> None:
    texts = {1: r"\set aid random(1, 100000)"} | {number: f"select {number};" for number in (10, 2, 9)}
    for number, text in texts.items():
        Measurement.objects.create(
            run=run, step="measure", name=f"statement:{number} latency", unit="ms", definition=text, value=number
        )

    assert [(each.name, each.sql) for each in latencies.statements_of(run)] == [
        ("measure statement:2", "select 2;"),
        ("measure statement:9", "select 9;"),
        ("measure statement:10", "select 10;"),
    ]
