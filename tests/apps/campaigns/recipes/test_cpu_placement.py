"""The recipe cpu-placement: levels from the host's cpus, and a campaign from it with a real tracer."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.models import Run
from apps.hosts.models import Host
from apps.results import queries
from apps.results.models import Measurement
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


def facts(*sockets: int, allowed: str) -> dict[str, Any]:
    """Cpus 0, 1, 2 ... each a core of its own, on these sockets."""
    rows = [
        {"cpu": cpu, "core": cpu, "socket": socket, "node": socket, "siblings": str(cpu)}
        for cpu, socket in enumerate(sockets)
    ]
    return {"cpus": {"allowed": allowed, "online": allowed, "topology": rows}}


def levels(about: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Cpus of PostgreSQL, and those of the tracer by label."""
    server, tracer = recipes.factors(recipes.get("cpu-placement"), about)
    placed = {level["label"]: level["set"].get("settings.cpu_affinity.tracer", "") for level in tracer["levels"]}
    return [level["set"]["settings.cpu_affinity.server"] for level in server["levels"]], placed


def test_a_tracer_is_placed_on_every_kind_of_cpu_that_the_host_has() -> None:
    """As on the machine of the published experiment: cpus are numbered across two sockets."""
    placed = levels(facts(1, 0, 1, 0, 1, 0, 1, 0, allowed="0-7"))

    assert placed == (
        ["1", "3"],
        {
            "no tracer": "",
            "tracer on the same cpu": "server",
            "tracer on another cpu": "5",
            "tracer on another socket": "0",
        },
    )


@pytest.mark.parametrize(
    ("sockets", "allowed", "server", "tracer"),
    [
        ((0,), "0", ["0"], ["", "server"]),
        ((0, 0), "0-1", ["0"], ["", "server", "1"]),
        ((0, 1), "0-1", ["0"], ["", "server", "1"]),
        ((0, 0, 0), "0-2", ["0", "1"], ["", "server", "2"]),
    ],
)
def test_small_hosts_have_fewer_levels(sockets: Any, allowed: str, server: list[str], tracer: list[str]) -> None:
    cpus, placed = levels(facts(*sockets, allowed=allowed))

    assert (cpus, list(placed.values())) == (server, tracer)


def test_the_overhead_of_the_tracer_is_estimated_from_runs_with_and_without_it(host: Host, admin: User) -> None:
    campaign = services.create_from_recipe(by=admin, host=host, recipe="cpu-placement", repetitions=1, seed=1)
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign)

    runs = list(campaign.runs.all())
    assert [run.outcome for run in runs] == ["ok"] * len(runs), [run.error for run in runs]
    table = queries.campaign_table(campaign)
    assert {level.label for level in table.levels} - table.overheads.keys() == {"cpu 0, no tracer"}
    for sentence in table.overheads.values():
        assert sentence.startswith("tracer overhead: (") and "from one run of each" in sentence
    traced = next(run for run in runs if run.cell["tracer"] == "tracer on the same cpu")
    assert traced.measurements.get(name="tracer events").value > 1000
    assert 100 < traced.measurements.get(name="tracer ns per event").value < 10_000_000
    proofs = traced.events.filter(kind="proof", data__subject="tracer: every process and thread", data__ok=True)
    assert proofs.first().data["found"] == "0"
    assert not Run.objects.filter(campaign=campaign, cell__tracer="no tracer", artefacts__path="out/scan/tracer.txt")

    # A count that is known to be short says nothing of what an event costs.
    Measurement.objects.create(run=traced, step="scan", name="tracer lost records", value=7, unit="records")
    assert table.overheads.keys() - queries.campaign_table(campaign).overheads.keys() == {traced.label}
