"""Single runs compared: their samples on one time axis, and all their figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from apps.campaigns.models import Run
from apps.results.models import Measurement
from apps.results.runs import side_by_side
from apps.results.store import fold
from tests.apps.results.store.test_series import BEGAN, tell
from tests.rows import filled


@pytest.fixture
def runs(db: None, client: Client) -> list[Run]:
    """Two of one campaign, of four and of three seconds."""
    team = filled.team()
    client.force_login(team["operator"])
    pair = list(team["ok_run"].campaign.runs.filter(outcome="ok").order_by("position")[:2])
    for run, seconds in zip(pair, (4, 3), strict=True):
        run.events.filter(kind__in=("measuring", "measured")).delete()
        run.series.all().delete()
        tell(run, ("measured", {"step": "measure", "began": BEGAN, "ended": BEGAN + seconds, "costs": {}}))
        t = np.arange(1.0, seconds + 1)
        fold.append(run, "measure", "pgbench", {"t": t, "tps": 100 * t, "latency_ms": t, "stddev_ms": t})
        fold.append(run, "measure", "postgresql", {"t": t, "wait.running": t, "wait.IO:WalSync": t + 1})
        fold.append(run, "measure", "cpu", {"t": t, "busy": t, "user": t})
    return pair


def query(runs: list[Run], **more: Any) -> dict[str, Any]:
    return {"of": [f"run:{run.pk}" for run in runs], **more}


def figure(client: Client, runs: list[Run], **more: Any) -> dict[str, Any]:
    drawn: dict[str, Any] = client.get(reverse("compare_figure", args=["time"]), query(runs, **more)).json()
    return drawn


def test_lines_of_both_runs_share_a_panel_and_waits_have_one_each(client: Client, runs: list[Run]) -> None:
    drawn = figure(client, runs)

    lines = {trace["name"]: trace for trace in drawn["data"] if not trace.get("stackgroup")}
    assert {"A tps", "B tps", "A latency_ms", "B latency_ms", "A busy", "B busy"} <= set(lines)
    assert (lines["A tps"]["y"], lines["B tps"]["y"]) == ([100, 200, 300, 400], [100, 200, 300])
    assert lines["A tps"]["yaxis"] == lines["B tps"]["yaxis"] != lines["A busy"]["yaxis"]
    colours = {name: trace["line"]["color"] for name, trace in lines.items()}
    assert colours["A tps"] == colours["A busy"] != colours["B tps"] == colours["B busy"]
    titles = [note["text"] for note in drawn["layout"]["annotations"]]
    assert titles[-2:] == ["wait events of A (backends)", "wait events of B (backends)"]


def test_a_part_of_the_time_is_shown(client: Client, runs: list[Run]) -> None:
    drawn = figure(client, runs, **{"from": "2", "to": "3"})

    assert drawn["layout"]["xaxis"]["range"] == [2.0, 3.0]


def test_every_figure_has_its_difference_and_no_interval(client: Client, runs: list[Run]) -> None:
    first, second = (run.measurements.get(name="tps").value for run in runs)
    Measurement.objects.create(run=runs[1], step="measure", name="retries", value=3, unit="retries", better="lower")

    rows = {row.name: row for row in side_by_side.rows_of(runs)}
    text = client.get(reverse("compare"), query(runs)).content.decode()

    assert rows["tps"].changes[1] == side_by_side.FigureValue(second, second - first, 100 * (second / first - 1))
    assert rows["retries"].changes == [side_by_side.FigureValue(None), side_by_side.FigureValue(3.0)]
    assert next(iter(rows)) == "tps"
    assert "A single run has no confidence interval" in text and "All figures" in text


def test_levels_are_not_drawn_over_time(client: Client, runs: list[Run]) -> None:
    sides = [f"level:{run.campaign_id}:{run.label}" for run in runs]

    answer = client.get(reverse("compare_figure", args=["time"]), {"of": sides})
    page = client.get(reverse("compare"), {"of": sides})

    assert answer.status_code == 422 and "Only single runs" in answer.json()["error"]
    assert "All figures" not in page.content.decode()


def test_the_number_of_queries_does_not_grow_with_figures(
    client: Client, runs: list[Run], django_assert_max_num_queries: Any
) -> None:
    Measurement.objects.bulk_create(
        Measurement(run=runs[0], step="measure", name=f"extra {n}", value=n, unit="") for n in range(50)
    )

    with django_assert_max_num_queries(30):
        client.get(reverse("compare"), query(runs))
