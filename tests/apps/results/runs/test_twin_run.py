"""A twin end to end: a production database is captured, its twin is created, and runs with the real agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.library import datasets, preparing
from apps.campaigns.models import DataCopy, DataSet, Run, Twin
from apps.campaigns.twins import services as twins
from apps.hosts.models import Host
from apps.results.answers.judgements import judgements
from apps.results.runs.fidelity import fidelity_of
from embedded.servers.postgres import bin_dir
from tests.cli.program import Program
from tests.servers import campaigns, remote
from tests.servers.production import OTHERS, SCHEMA, Production, start

pytestmark = pytest.mark.django_db(transaction=True)
CUSTOMERS = "select count(*) from shop.customers"


@pytest.fixture(scope="module")
def production() -> Iterator[Production]:
    """With the history of a table that is updated every day: rows that updates have moved, and room on most pages."""
    with start() as running:
        running.work(20_000)
        yield running


@pytest.fixture(scope="module")
def captured(production: Production, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a capture during 2,000 transactions."""
    home: Path = tmp_path_factory.mktemp("dba")
    program = Program(home, env={"PATH": f"{home}/bin:{bin_dir()}:/usr/bin:/bin"})
    load = production.work_between_snapshots(2000)
    done = program.run(
        "twin", "capture", "--dsn", production.dsn, "--minutes", "0.1", "--out", str(home / "shop.jsonl")
    )
    load.join()
    assert done.returncode == 0, done.stderr
    return (home / "shop.jsonl").read_bytes()


def test_a_run_of_a_twin_resembles_production(captured: bytes, host: Host, admin: User, client: Client) -> None:
    load = twins.Load(clients=2, jobs=1, time_s=5)
    twin = twins.create("shop", captured, load=load, by=admin)

    campaign = services.create_campaign(
        by=admin, host=host, name="twin", question="?", workload=twin.workload, dataset=twin.dataset, repetitions=1,
        factors=[{"name": "work_mem", "levels": [{"label": "4MB", "set": {"settings.postgresql.work_mem": "4MB"}}]}],
    )  # fmt: skip
    services.start_campaign(campaign, by=admin)
    campaigns.finish(campaign)

    (run,) = campaign.runs.all()
    assert run.outcome == "ok", run.error
    fidelity = fidelity_of(run)
    assert fidelity is not None
    assert fidelity.covered >= 0.85  # of the time: it varies with what else the machine does
    for statement in fidelity.statements:
        assert statement.twin is not None, statement.text
        assert statement.twin.calls_share == pytest.approx(statement.production.calls_share, abs=0.02), statement.text
        assert statement.twin.blocks == pytest.approx(statement.production.blocks, rel=0.15), statement.text
    assert 0.85 <= fidelity.value <= fidelity.covered
    client.force_login(admin)
    page = client.get(reverse("run_detail", args=[run.pk])).content.decode()
    assert f"Fidelity of the twin: {fidelity.percent:.0f} %" in page and "update shop.customers" in page
    reported = client.get(f"/api/v1/runs/{run.pk}/observed/").json()["fidelity"]
    assert reported["value"] == fidelity.value and reported["statements"][0]["twin"]["calls"] > 0
    (sentence,) = [judgement.sentence for judgement in judgements(campaign) if judgement.topic == "twin"]
    assert sentence == f"The load is a twin of the database shop. Its fidelity is {fidelity.percent:.0f} % in 1 run."
    assert "twin, fidelity" in client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()


def test_a_twin_runs_on_a_copy_of_production_with_sampled_keys(captured: bytes, host: Host, admin: User) -> None:
    tables = SCHEMA.replace("create extension pg_stat_statements;\nvacuum analyze;", "")
    made = [{"name": "tables", "sql": tables}, {"name": "vacuum", "sql": "vacuum analyze", "transaction": False}]
    copy = datasets.save_dataset("copy", "sql", {"steps": made}, by=admin)

    run_on_existing_data(copy, captured, host, admin)


def test_a_twin_runs_on_a_dump_of_production(production: Production, captured: bytes, host: Host, admin: User) -> None:
    with remote.short_dir() as place:
        place.chmod(0o755)
        path, host.data_dir = place / "shop.dump", str(place / "clusters")  # the load has an account of its own there
        host.save()
        where = ["-h", str(production.root), "-U", "postgres"]
        dump = [str(bin_dir() / "pg_dump"), "-Fc", "-f", str(path), *where, production.database.name]
        subprocess.run(dump, check=True, timeout=120)
        path.chmod(0o644)
        copy = datasets.save_dataset("dump", "dump", {"path": str(path), "jobs": 2}, by=admin)

        stored = run_on_existing_data(copy, captured, host, admin).data_use.copy

        assert [name for name, _ in stored.seconds] == ["schema", "rows", "indexes", "vacuum"]
        assert (stored.dataset, stored.relations["shop.customers"]["rows"]) == (copy, int(production.sql(CUSTOMERS)))
        path.unlink()
        campaigns.finish(preparing.remove(stored, by=admin))
        assert not DataCopy.objects.exists()


def run_on_existing_data(copy: DataSet, captured: bytes, host: Host, admin: User) -> Run:
    """A run of a twin on a copy of production; each lookup finds its row."""
    twin = twins.create("copied", captured, load=twins.Load(clients=2, jobs=1, time_s=3), dataset=copy, by=admin)

    campaign = services.create_campaign(
        by=admin, host=host, name="copied", question="?", workload=twin.workload, dataset=copy, repetitions=1,
        metric="measure.tps",
        factors=[{"name": "work_mem", "levels": [{"label": "4MB", "set": {"settings.postgresql.work_mem": "4MB"}}]}],
    )  # fmt: skip
    services.start_campaign(campaign, by=admin)
    (run,) = campaigns.ok_runs(campaign, 120)

    fidelity = fidelity_of(run)
    assert fidelity is not None and fidelity.value >= 0.75
    (lookup,) = [each for each in fidelity.statements if each.text.startswith("select id, email")]
    assert lookup.twin is not None and lookup.twin.rows == 1
    return run


def test_statements_that_are_left_out_are_listed_with_reason_and_share_of_time(captured: bytes, admin: User) -> None:
    twin = twins.create("shop", captured, by=admin)

    reasons = {each["text"]: each["reason"] for each in twin.left_out}
    assert len(OTHERS) == 3
    assert "calls the function shop.audit" in reasons["select shop.audit($1)"]
    assert "calls the function pg_advisory_xact_lock" in reasons["select pg_advisory_xact_lock($1)"]
    assert reasons["CREATE"] and reasons["DROP"]
    assert sum(statement["share"] for statement in twin.statements) == pytest.approx(1)
    assert Twin.objects.get() == twins.create("shop", captured, by=admin)
