"""PostgreSQL and a tracer on CPUs of two sockets: their placement, the counts of the tracer, and its overhead."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results import queries
from tests.lab.conftest import differences, read_settings
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

TIMEOUT_S = 1500
READS = 1500  # of three scans of 1053 blocks, a quarter of which may have stayed in memory
TABLE = "create table if not exists traced as select repeat('x', 400) from generate_series(1, 10000)"
CALLS = ["pread64", "preadv"]


def runs_of(campaign: Campaign, by: User) -> list[Run]:
    """The runs of a campaign, which is started and driven to its end. All of them must be ok."""
    services.start_campaign(campaign, by=by)
    return campaigns.ok_runs(campaign, TIMEOUT_S)


def measurement(run: Run, name: str) -> float:
    return float(run.measurements.get(step="scan", name=name).value)


def proven(run: Run, subject: str) -> set[Any]:
    return {event.data["found"] for event in run.events.filter(kind="proof", data__subject=subject)}


@pytest.mark.proves("cpu_affinity", where="lab")
def test_the_recipe_measures_the_overhead_of_the_tracer_on_each_socket(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)
    steps = recipes.steps(recipes.get("cpu-placement"), host.facts)
    # Emulated cpus take long to wake one another: a tenth of the rows.
    steps[0]["options"]["statements"] = steps[0]["options"]["statements"].replace("200000", "20000")
    workload = workloads.save_workload("small", steps, by=admin)
    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="cpu-placement", workload=workload, repetitions=1, seed=1
    )

    runs = {(run.cell["PostgreSQL's cpu"], run.cell["tracer"]): run for run in runs_of(campaign, admin)}

    assert len({server for server, _ in runs}) == 2
    sockets = {str(row["cpu"]): row["socket"] for row in host.facts["cpus"]["topology"]}
    traced = {cell: run for cell, run in runs.items() if cell[1] != "no tracer"}
    for (server, _), run in runs.items():
        assert proven(run, "server: every process and thread") == {server.removeprefix("cpu ")}
    for (server, place), run in traced.items():
        (cpu,) = proven(run, "tracer: every process and thread")
        if place == "tracer on the same cpu":
            assert cpu == server.removeprefix("cpu ")
        if place == "tracer on another socket":
            assert sockets[cpu] != sockets[server.removeprefix("cpu ")]
        assert measurement(run, "tracer events") > READS
        assert measurement(run, "execution_mean") > measurement(runs[server, "no tracer"], "execution_mean")
    assert {place for _, place in traced} >= {"tracer on the same cpu", "tracer on another socket"}
    sentences = queries.campaign_table(campaign).overheads
    assert set(sentences) == {run.label for run in traced.values()}
    assert differences(before, read_settings(vm)) == {}


def test_every_tracer_sees_the_same_reads(host: Host, admin: User, vm: Machine) -> None:
    """A query with a known number of reads: strace, perf and bpftrace count the same."""
    before = read_settings(vm)
    query = {"query": "select count(*) from traced", "times": 2, "before": "set max_parallel_workers_per_gather = 0"}
    steps = [
        {"name": "table", "role": "prepare", "kind": "sql", "options": {"statements": TABLE}},
        {"name": "scan", "kind": "sql", "options": {**query, "tracer": {"tool": "none", "syscalls": CALLS}}},
    ]
    tools = [{"label": tool, "set": {"steps.scan.tracer.tool": tool}} for tool in ("strace", "perf", "bpftrace")]
    workload = workloads.save_workload("traced", steps, by=admin)
    memory = {"settings.postgresql.shared_buffers": "1MB", "settings.postgresql.autovacuum": "off"}
    factors = [{"name": "tool", "levels": tools}, {"name": "memory", "levels": [{"label": "1MB", "set": memory}]}]
    campaign = services.create_campaign(
        by=admin, host=host, name="tracers", question="?", workload=workload, factors=factors, repetitions=1,
        metric="execution_mean", seed=1,
    )  # fmt: skip

    runs = {run.cell["tool"]: run for run in runs_of(campaign, admin)}

    read = {label: 2 * measurement(run, "shared_read_mean") for label, run in runs.items()}
    for label, run in runs.items():
        lost = run.measurements.filter(name="tracer lost records").exists()  # perf's, where cpus are emulated
        assert (lost or 0.9 * read[label] <= measurement(run, "tracer events")) and (label == "perf" or not lost), label
        assert measurement(run, "tracer events") <= 1.2 * read[label], label
        assert measurement(run, "tracer ns per event") > 100
    assert differences(before, read_settings(vm)) == {}
