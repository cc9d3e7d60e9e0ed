"""A campaign on two real hosts: the same combinations on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Lease
from apps.results import queries
from tests.servers import campaigns, machines, remote
from tests.servers.remote import Server

LEVELS = [{"label": mb, "set": {"settings.postgresql.work_mem": mb}} for mb in ("4MB", "8MB")]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.needs("root", "machine-id")]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with remote.several(["first", "second"]) as running:
        yield running


@pytest.fixture
def pair(servers: dict[str, Server], admin: User) -> list[Host]:
    return [machines.register(name, server, admin) for name, server in servers.items()]


def start(pair: list[Host], by: User) -> Campaign:
    campaign = services.create_campaign(
        by=by,
        host=pair[0],
        further_hosts=pair[1:],
        placement=Campaign.Placement.EACH,
        name="small",
        question="does memory help anywhere?",
        workload=workloads.save_workload("small", single("pgbench", campaigns.CALM | {"time_s": 1}), by=by),
        factors=[{"name": "work_mem", "levels": LEVELS}],
        repetitions=1,
        seed=1,
    )
    services.start_campaign(campaign, by=by)
    return campaign


def test_both_hosts_measure_every_cell(pair: list[Host], admin: User) -> None:
    campaign = campaigns.finish(start(pair, admin))

    runs = list(campaign.runs.select_related("host"))
    assert [run.error for run in runs if run.outcome != Run.Outcome.OK] == []
    assert Counter((run.host.name, run.label) for run in runs) == {
        (host.name, level["label"]): 1 for host in pair for level in LEVELS
    }
    assert not Lease.objects.exclude(run=None).exists()
    table = queries.campaign_table(campaign)
    assert {answer.name for answer in table.hosts} == {"first", "second"}
    assert {point.host for level in table.levels for point in level.points} == {"first", "second"}
