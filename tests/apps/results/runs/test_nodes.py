"""Samples of a run by NUMA node: computed from CPUs, drawn as heat maps, and absent with a single node."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse

from apps.campaigns.models import Run
from apps.hosts.models import Facts
from apps.results.runs import nodes
from apps.results.store import fold, series
from tests.apps.results.store.test_series import BEGAN, tell
from tests.rows import filled

pytestmark = pytest.mark.django_db
BUSY, USED = nodes.KEY, "numa.memory used per node"


def topology(*node_of: int) -> dict[str, Any]:
    return {"cpus": {"topology": [{"cpu": cpu, "node": node} for cpu, node in enumerate(node_of)]}}


@pytest.fixture
def run() -> Run:
    """On a host of two nodes, whose cpus are numbered across them."""
    live_run: Run = filled.team()["live_run"]
    live_run.events.filter(kind__in=("sample", "measuring")).delete()
    tell(live_run, ("measuring", {"step": "measure", "began": BEGAN}))
    facts = Facts.objects.create(
        host=live_run.host, number=77, digest="7" * 64, data={**live_run.host.facts, **topology(1, 0, 1, 0)}
    )
    Run.objects.filter(pk=live_run.pk).update(facts=facts)
    return Run.objects.get(pk=live_run.pk)


@pytest.fixture
def browser(run: Run, client: Client) -> Client:
    client.force_login(run.campaign.created_by)
    return client


def figure(browser: Client, run: Run, **query: Any) -> dict[str, Any]:
    drawn: dict[str, Any] = browser.get(reverse("run_figure", args=[run.pk]), query).json()
    assert go.Figure({"data": drawn["data"], "layout": drawn["layout"]})
    return drawn


def busy(samples: int = 3) -> dict[str, Any]:
    each = {f"cpu{cpu}.busy": np.full(samples, value) for cpu, value in enumerate((10.0, 50.0, 30.0, 90.0))}
    return {"t": np.arange(float(samples)), **each}


def test_a_node_is_as_busy_as_its_cpus_are_in_the_mean() -> None:
    table = {"t": np.array([0.0, 1.0]), "cpu0.busy": np.array([10.0, 20.0]), "cpu2.busy": np.array([30.0, np.nan])}

    with_means = nodes.with_nodes(table, nodes.parts_of(topology(1, 0, 1)))

    assert with_means["node1.cpus"].tolist() == [20.0, 20.0]
    assert "node0.cpus" not in with_means, "no sample of its cpu"


def test_a_host_with_one_node_has_no_means_of_nodes() -> None:
    assert nodes.parts_of(topology(0, 0, 0)) == {} == nodes.parts_of({})


def test_nodes_are_in_numerical_order() -> None:
    assert list(nodes.parts_of(topology(10, 2, 0))) == ["node0.cpus", "node2.cpus", "node10.cpus"]


@pytest.mark.thorough
def test_nodes_are_a_heat_map_beside_that_of_the_cpus(browser: Client, run: Run) -> None:
    fold.append(run, "measure", "cpu", busy())

    drawn = figure(browser, run, panel=[BUSY, "cpu.busy per cpu"])

    (heat,) = [trace for trace in drawn["data"] if trace["type"] == "heatmap"]
    assert (heat["y"], heat["z"]) == (["node0.cpus", "node1.cpus"], [[70.0] * 3, [20.0] * 3])
    assert (heat["zmin"], heat["zmax"]) == (0, 100)
    assert drawn["means"]["measure"]["node1.cpus"] == ["cpu0.busy", "cpu2.busy"]


def test_the_heat_map_of_nodes_is_shown_by_default_and_in_the_csv(browser: Client, run: Run) -> None:
    fold.append(run, "measure", "cpu", busy())

    shown = [panel.key for panel in series.chosen(series.panels_of(run), [])]
    csv = browser.get(reverse("run_csv", args=[run.pk]), {"panel": BUSY})

    assert shown[shown.index("cpu.busy per cpu") + 1] == BUSY
    assert b"".join(csv).splitlines()[:2] == [b"t (s),cpu node0.cpus (%),cpu node1.cpus (%)", b"0.0,70.0,20.0"]  # type: ignore[arg-type]


def test_zooming_in_reads_that_part_of_the_time(browser: Client, run: Run) -> None:
    table = busy(20_000)
    table["cpu1.busy"][12_345] = 100.0
    fold.append(run, "measure", "cpu", table)

    (whole,) = figure(browser, run, panel=BUSY)["data"]
    (closer,) = figure(browser, run, panel=BUSY, **{"from": 12_340, "to": 12_350})["data"]

    assert len(whole["x"]) == 1000 and max(whole["z"][0]) == 95.0
    assert dict(zip(closer["x"], closer["z"][0], strict=True))[12_345] == 95.0
    assert 70.0 in closer["z"][0]


def test_a_host_with_one_node_has_no_panel_of_nodes(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(facts=None)
    fold.append(run, "measure", "cpu", busy())

    assert BUSY not in {panel.key for panel in series.panels_of(Run.objects.get(pk=run.pk))}


def test_memory_of_one_node_is_a_row_that_says_so(browser: Client, run: Run) -> None:
    one = {"t": np.arange(3.0), "node0.MemUsed": np.full(3, 2 * 1024.0**2)}
    fold.append(run, "measure", "numa", one)

    drawn = figure(browser, run, panel=USED)

    assert (drawn["data"][0]["y"], drawn["data"][0]["z"]) == (["node0.MemUsed"], [[2.0] * 3])
    assert "memory used per node (GiB), single node" in [
        annotation["text"] for annotation in drawn["layout"]["annotations"]
    ]
    assert drawn["layout"]["yaxis"]["ticktext"] == ["node0"]


def test_two_nodes_are_a_heat_map_however_few_they_are(browser: Client, run: Run) -> None:
    fold.append(
        run, "measure", "numa", {"t": np.arange(2.0), "node0.numa_miss": np.zeros(2), "node1.numa_miss": np.ones(2)}
    )

    (heat,) = figure(browser, run, panel="numa.numa_miss per node")["data"]

    assert (heat["type"], heat["y"]) == ("heatmap", ["node0.numa_miss", "node1.numa_miss"])
    assert "zmax" not in heat, "pages have no most"
