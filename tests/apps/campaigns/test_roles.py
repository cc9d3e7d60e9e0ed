"""Runs over several hosts: client and server, primary and standbys; leased together, ended together."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import services, workloads
from apps.campaigns.models import Campaign
from apps.campaigns.steps import single
from apps.hosts.models import Host, Lease
from tests import campaigns, machines
from tests.agents.conftest import postgres_processes
from tests.remote import Server

NAMES = ["server", "client", "one", "two"]
Hosts = dict[str, Host]
SYNCHRONOUS = {
    "settings.postgresql.synchronous_standby_names": "ANY 1 (*)",
    "settings.postgresql.synchronous_commit": "remote_write",
}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with machines.serve(NAMES) as running:
        yield running


@pytest.fixture
def hosts(servers: dict[str, Server], admin: User) -> Hosts:
    return {name: machines.register(name, server, admin) for name, server in servers.items()}


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(hosts: Hosts, by: User, roles: dict[str, Any], changes: dict[str, Any], **options: Any) -> Campaign:
    """A started campaign of one run whose level makes these changes."""
    workload = workloads.save_workload("small", single("pgbench", campaigns.PGBENCH | options), by=by)
    campaign = services.create_campaign(
        by=by,
        host=hosts["server"],
        name="roles",
        question="do they work together?",
        workload=workload,
        factors=[{"name": "level", "levels": [{"label": "as set", "set": changes}]}],
        repetitions=1,
        roles=roles,
        seed=1,
    )
    services.start_campaign(campaign, by=by)
    return campaign


def of(job: Any, kind: str, **wanted: Any) -> list[dict[str, Any]]:
    """The data of events of a kind whose data has these values."""
    found = job.events.filter(kind=kind).order_by("seq").values_list("data", flat=True)
    return [data for data in found if all(data.get(key) == value for key, value in wanted.items())]


def assert_free(hosts: Hosts) -> None:
    """No machine is held, nothing of a run lives or lies on any host."""
    assert not Lease.objects.exclude(run=None).exists()
    for host in hosts.values():
        assert not postgres_processes(Path(host.data_dir))
        assert not list(Path(host.data_dir).glob("scratch-*"))


def test_a_client_on_one_host_measures_the_server_on_another(hosts: Hosts, admin: User, port: int) -> None:
    roles = {"client": hosts["client"].pk, "port": port}

    campaign = start(hosts, admin, roles, {"settings.postgresql.work_mem": "7MB"})
    campaigns.finish(campaign)

    run = campaign.runs.get()
    part = run.parts.get()
    assert (run.outcome, run.error, run.host) == ("ok", None, hosts["client"])
    assert (part.outcome, part.role, part.host) == ("ok", "server", hosts["server"])
    assert run.measurements.filter(name="tps").exists()
    assert {proof["phase"] for proof in of(part, "proof", subject="work_mem", ok=True)} == {"before", "after"}
    assert part.events.count() == part.last_seq == part.manifest["last_seq"]
    assert run.data_use.copy.host == hosts["server"]
    assert_free(hosts)
