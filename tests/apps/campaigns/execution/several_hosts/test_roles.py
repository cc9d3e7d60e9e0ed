"""Runs on several hosts with client, server, primary and standbys: leased together, ended together."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.execution import claims, ensemble, queue
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts.access import links, ssh
from apps.hosts.models import Host, Lease
from apps.hosts.usage import leases
from tests.agents.conftest import postgres_processes
from tests.servers import campaigns, machines, remote
from tests.servers.remote import Server

NAMES = ["server", "client", "one", "two"]
Hosts = dict[str, Host]
SYNCHRONOUS = {
    "settings.postgresql.synchronous_standby_names": "ANY 1 (*)",
    "settings.postgresql.synchronous_commit": "remote_write",
}

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.needs("root", "machine-id")]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with remote.several(NAMES) as running:
        yield running


@pytest.fixture
def hosts(servers: dict[str, Server], admin: User) -> Hosts:
    return {name: machines.register(name, server, admin) for name, server in servers.items()}


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    hosts: Hosts,
    by: User,
    roles: dict[str, Any],
    changes: dict[str, Any],
    steps: list[dict[str, Any]] | None = None,
    **options: Any,
) -> Campaign:
    """A started campaign of one run whose level makes these changes."""
    workload = workloads.save_workload("small", steps or single("pgbench", campaigns.CALM | options), by=by)
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


def of(job: Any, kind: str, **values: Any) -> list[dict[str, Any]]:
    """The data of events of a kind whose data has these values."""
    rows = job.events.filter(kind=kind).order_by("seq").values_list("data", flat=True)
    return [data for data in rows if all(data.get(key) == value for key, value in values.items())]


def assert_free(hosts: Hosts) -> None:
    """No lease is held, and no process or file of a run is left on any host."""
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
    assert 0 < run.measurements.get(name="cpu_per_transaction").value < 100  # seen by the server's collectors
    assert {proof["phase"] for proof in of(part, "proof", subject="work_mem", ok=True)} == {"before", "after"}
    samples = sum(series.samples for series in run.series.filter(step="@server"))
    assert samples > 0
    assert part.events.count() + samples == part.last_seq == part.manifest["last_seq"]
    assert run.data_use.copy.host == hosts["server"]
    assert_free(hosts)


@pytest.mark.parametrize("client", [True, False], ids=["load from a client", "load on the primary"])
def test_standbys_are_synchronous_while_the_load_runs(hosts: Hosts, admin: User, port: int, client: bool) -> None:
    roles: dict[str, Any] = {"standbys": [hosts["one"].pk, hosts["two"].pk], "port": port}
    roles |= {"client": hosts["client"].pk} if client else {}

    campaign = start(hosts, admin, roles, SYNCHRONOUS, builtin="simple-update")
    campaigns.finish(campaign)

    run = campaign.runs.get()
    primary = run.parts.get(role="server") if client else run
    assert (run.outcome, run.error) == ("ok", None)
    assert set(run.parts.values_list("outcome", flat=True)) == {"ok"}
    proofs = of(primary, "proof", subject="synchronous standbys", ok=True)
    assert {proof["found"] for proof in proofs} == {"standby1 quorum, standby2 quorum"}
    assert {"before", "after"} <= {proof["phase"] for proof in proofs}
    assert run.measurements.filter(name="tps").exists()
    assert_free(hosts)


def test_cancelling_ends_every_part_and_frees_every_host(hosts: Hosts, admin: User, port: int) -> None:
    roles = {"client": hosts["client"].pk, "standbys": [hosts["one"].pk], "port": port}
    campaign = start(hosts, admin, roles, {}, time_s=600)
    run = campaign.runs.get()
    drive_until(run, "RUNNING")

    services.cancel_campaign(campaign, by=admin)
    campaigns.finish(campaign)

    run.refresh_from_db()
    assert run.outcome == "cancelled"
    assert {part.outcome for part in run.parts.all()} == {"cancelled"}
    assert all(part.manifest["clean"] for part in run.parts.all())
    assert_free(hosts)


def test_a_server_whose_agent_dies_fails_the_run_and_releases_every_host(hosts: Hosts, admin: User, port: int) -> None:
    campaign = start(hosts, admin, {"client": hosts["client"].pk, "port": port}, {}, time_s=600)
    run = campaign.runs.get()
    drive_until(run, "RUNNING")

    os.kill(agent_of(run.parts.get()), signal.SIGKILL)
    campaigns.finish(campaign)

    run.refresh_from_db()
    assert run.outcome == "interrupted"
    assert run.error["message"].startswith("server on server: the run was interrupted")
    assert run.parts.get().outcome == "interrupted"
    assert not run.measurements.exists()
    assert_free(hosts)


def test_a_client_that_fails_leaves_a_server_that_ended_well(hosts: Hosts, admin: User, port: int) -> None:
    script = {"script": "select 1/0;", "builtin": None, "exit_on_abort": True}
    options = {name: value for name, value in (campaigns.PGBENCH | script).items() if value is not None}
    steps = [{"name": "measure", "kind": "pgbench", "options": {**options, "max_tries": 1}}]
    campaign = start(hosts, admin, {"client": hosts["client"].pk, "port": port}, {}, steps=steps)

    campaigns.finish(campaign)

    run = campaign.runs.get()
    assert (run.outcome, run.parts.get().outcome) == ("failed", "ok")
    assert_free(hosts)


def test_a_run_whose_permission_was_revoked_fails_before_any_host_is_contacted(
    hosts: Hosts, admin: User, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {name: value for name, value in campaigns.PGBENCH.items() if name != "builtin"}
    steps = single("pgbench", {**options, "script": "select 1;"})
    campaign = start(hosts, admin, {"client": hosts["client"].pk, "port": port}, {}, steps=steps)
    User.objects.filter(pk=admin.pk).update(may_run_commands=False)

    def connect(host: Host) -> None:
        raise AssertionError(f"{host} was contacted")

    monkeypatch.setattr(links, "link", connect)
    campaigns.finish(campaign)

    run = campaign.runs.get()
    assert run.outcome == "failed"
    assert "may not run commands" in run.error["message"]
    assert_free(hosts)


class Death(BaseException):
    """What kill -9 is to a worker: nothing after it happens."""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_worker_may_die_between_any_two_acts(
    hosts: Hosts, admin: User, port: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    spoken = ssh.Link.call

    def call(link: ssh.Link, verb: str, *args: Any, **arguments: Any) -> Any:
        if chance.random() < 0.04:
            raise Death
        answer = spoken(link, verb, *args, **arguments)
        if chance.random() < 0.04:
            raise Death
        return answer

    roles = {"client": hosts["client"].pk, "standbys": [hosts["one"].pk], "port": port}
    campaign = start(hosts, admin, roles, SYNCHRONOUS, time_s=3)
    monkeypatch.setattr(ssh.Link, "call", call)
    monkeypatch.setattr(claims, "CLAIM_S", 0.5)
    deaths = drive_dying(campaign)

    run = campaign.runs.get()
    assert deaths > 0
    assert (run.outcome, run.error) == ("ok", None)
    for job in (run, *run.parts.all()):
        assert job.manifest["clean"]
        seqs = list(job.events.exclude(kind="sample").values_list("seq", flat=True))
        assert len(seqs) == len(set(seqs))
        assert job.last_seq == job.manifest["last_seq"]
    assert_free(hosts)


def test_two_runs_that_want_the_same_hosts_in_opposite_order_never_wait_for_each_other() -> None:
    machines_ = [f"{n:032x}" for n in range(3)]
    outcomes: list[bool] = []

    def compete(order: list[str]) -> None:
        try:
            for _ in range(40):
                jobs = {machine: uuid.uuid4() for machine in order}
                got = leases.acquire_all(jobs, 60)
                held = Lease.objects.filter(run__in=jobs.values()).count()
                assert held == (len(jobs) if got else 0)
                outcomes.append(got)
                for machine, job in jobs.items():
                    leases.release(machine, job)
        finally:
            connection.close()

    threads = [Thread(target=compete, args=(order,)) for order in (machines_, machines_[::-1], machines_[1:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(outcomes) == 120
    assert outcomes.count(True) > 0
    assert not Lease.objects.exclude(run=None).exists()


def test_a_run_that_needs_a_taken_host_waits_and_is_not_overtaken(hosts: Hosts, admin: User, port: int) -> None:
    first = campaigns.start(hosts["client"], admin)
    both = start(hosts, admin, {"client": hosts["client"].pk, "port": port}, {})
    later = campaigns.start(hosts["server"], admin)

    queue.arm_idle_hosts()

    armed = Run.objects.filter(next_tick_at__isnull=False)
    assert set(armed.values_list("campaign", flat=True)) == {first.pk}
    services.cancel_campaign(first, by=admin)
    queue.arm_idle_hosts()
    assert set(armed.values_list("campaign", flat=True)) == {both.pk}
    services.cancel_campaign(both, by=admin)
    queue.arm_idle_hosts()
    assert set(armed.values_list("campaign", flat=True)) == {later.pk}
    assert set(both.runs.get().parts.values_list("outcome", flat=True)) == {"cancelled"}


def test_the_password_is_not_in_the_rows_of_a_run(hosts: Hosts, admin: User, port: int) -> None:
    campaign = start(hosts, admin, {"client": hosts["client"].pk, "port": port}, {})

    campaigns.finish(campaign)

    run = campaign.runs.get()
    secret = ensemble.password_of(run)
    for job in (run, run.parts.get()):
        records = json.dumps([job.spec, job.manifest, *job.events.values_list("data", flat=True)])
        contents = b"".join(bytes(content or b"") for content in job.artefacts.values_list("content", flat=True))
        assert secret not in records
        assert secret.encode() not in contents


def drive_until(run: Run, state: str) -> None:
    """Tick in short turns until the load's agent is in this state."""

    def there() -> bool:
        run.refresh_from_db()
        return run.agent_state == state and run.step == "measure"

    original, claims.FOLLOW_S = claims.FOLLOW_S, 0.5
    try:
        campaigns.drive(there)
    finally:
        claims.FOLLOW_S = original


def drive_dying(campaign: Campaign) -> int:
    """Drive a campaign whose workers die; how many did."""
    deaths, deadline = 0, time.monotonic() + 300
    while campaign.ended_at is None or campaign.runs.filter(ingested_at=None).exists():
        assert time.monotonic() < deadline, [(run.state, run.error) for run in campaign.runs.all()]
        try:
            campaigns.step()
        except Death:
            deaths += 1
        time.sleep(0.2)
        campaign.refresh_from_db()
    return deaths


def agent_of(part: RunPart) -> int:
    """The PID of the process that executes a role on its host, from its states."""
    path = Path(part.host.spool_dir) / "jobs" / str(part.pk) / "state.jsonl"
    pid: int = json.loads(path.read_text().splitlines()[-1])["pid"]
    return pid
