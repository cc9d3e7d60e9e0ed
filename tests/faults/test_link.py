"""Faults of networks, logins, clocks and releases on the link to the agent: the run continues, each event once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from django.utils import timezone

from agents.wire import protocol
from apps.accounts.models import User
from apps.campaigns.execution import claims
from apps.campaigns.execution.ensemble import Ensemble
from apps.campaigns.models import Campaign, Run
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.faults.counts import audit
from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection import siege, trap
from tests.faults.injection.on_host import DAY_S, Victim
from tests.faults.injection.wire import Proxy
from tests.servers import campaigns, remote, snapshot
from tests.session.alone import alone

pytestmark = pytest.mark.django_db(transaction=True)
SETTING = {
    "name": "knob",
    "levels": [{"label": "64", "set": {siege.LINK.path: 64}}],
}
SWALLOWED_S = 25.0  # so long after a run of a second is over


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Random:
    """Seeded by the test's name."""
    return Random(request.node.name)


@pytest.fixture
def proxy(server: remote.Server) -> Iterator[Proxy]:
    with Proxy(server.port) as running:
        yield running


@pytest.fixture
def host(register: Callable[[remote.Server], Host], server: remote.Server, proxy: Proxy) -> Host:
    """This machine, behind the proxy."""
    return ready(register(replace(server, port=proxy.port)))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried again soon."""
    for name in ("BUSY_RETRY_S", "UNREACHABLE_RETRY_S"):
        monkeypatch.setattr(claims, name, 0.3)


def ready(host: Host) -> Host:
    contact.check_host(host)
    host.refresh_from_db()
    assert host.state == Host.State.READY, host.state_reason
    return host


def start(host: Host, admin: User) -> Campaign:
    return campaigns.start(host, admin, SETTING, time_s=1)


@contextmanager
def at(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Something happens so many seconds from now."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def take_snapshot() -> snapshot.Snapshot:
    """While no other test changes settings. These campaigns mount nothing and use no loop device; other tests do."""
    with alone():
        state = snapshot.take()
    neighbours = ("mounts", "loop devices", "/sys/block/loop", "/sys/class/bdi/7:")
    return {name: text for name, text in state.items() if not name.startswith(neighbours)}


def count(ledger: Ledger, fault: int, struck: list[Campaign], before: snapshot.Snapshot) -> None:
    """Every run ok, and nothing lost, twice, or left."""
    ledger.count(fault, len(struck), audit.of_campaign(*struck), snapshot.left(before, take_snapshot))
    runs = Run.objects.filter(campaign__in=struck)
    assert [run.outcome for run in runs] == [Run.Outcome.OK] * len(struck), [run.error for run in runs]


@often(20)
def test_ssh_is_reset_in_mid_frame(
    host: Host, admin: User, proxy: Proxy, ledger: Ledger, chance: Random, times: int
) -> None:
    struck, before = [], take_snapshot()
    for _ in range(times):
        struck.append(start(host, admin))
        proxy.reset_after(chance.randrange(2_000, 40_000))
        campaigns.finish(struck[-1])

    assert proxy.resets == times
    count(ledger, 10, struck, before)


@often(3)
def test_ssh_is_swallowed_for_longer_than_the_run(
    host: Host, admin: User, proxy: Proxy, ledger: Ledger, chance: Random, times: int
) -> None:
    struck, before = [], take_snapshot()
    for _ in range(times):
        struck.append(start(host, admin))
        moment = chance.uniform(0.5, 2.5)
        with at(moment, proxy.swallow), at(moment + SWALLOWED_S, proxy.heal):
            campaigns.finish(struck[-1])

    count(ledger, 11, struck, before)


@often(10)
def test_another_host_key_is_refused_and_the_run_continues_with_the_right_one(
    host: Host, admin: User, proxy: Proxy, server: remote.Server, ledger: Ledger, chance: Random, times: int
) -> None:
    struck, before = [], take_snapshot()
    with remote.short_dir() as state, remote.serve("loopback", state) as stranger:
        stranger.authorized_keys.write_text(server.authorized_keys.read_text())  # it would let us in
        for _ in range(times):
            struck.append(start(host, admin))
            with at(chance.uniform(0, 2), lambda: swap(proxy, stranger.port)):
                campaigns.drive(lambda: "its host key differs from the approved one" in reason(host))
            swap(proxy, server.port)
            campaigns.finish(struck[-1])
        assert list(stranger.home.iterdir()) == []

    count(ledger, 12, struck, before)


def swap(proxy: Proxy, port: int) -> None:
    """From now on another machine answers."""
    proxy.target = port
    proxy.reset()


def reason(host: Host) -> str:
    host.refresh_from_db()
    return host.state_reason


@often(20)
@pytest.mark.parametrize("kind", remote.SERVERS)
def test_a_login_that_greets_does_not_disturb(
    register: Callable[[remote.Server], Host], admin: User, ledger: Ledger, chance: Random, kind: str, times: int
) -> None:
    struck, before = [], take_snapshot()
    with remote.short_dir() as state, remote.serve(kind, state) as server:
        host, victim = register(server), Victim(server.home)
        Host.objects.filter(pk=host.pk).update(python=victim.prepare())
        (server.home / "bashrc").write_text(f"echo welcome; cat {server.home}/greeting\n")
        for _ in range(times):
            victim.greet(chance)
            host.refresh_from_db()
            struck.append(start(ready(host), admin))
            campaigns.finish(struck[-1])

    count(ledger, 13, struck, before)


@often(10)
def test_the_clock_of_the_host_is_set_by_a_day(
    register: Callable[[remote.Server], Host], admin: User, ledger: Ledger, chance: Random, times: int
) -> None:
    """Forwards in one run and back in the next, during the measurement. Durations come from another clock."""
    struck, before = [], take_snapshot()
    with remote.short_dir() as state, remote.serve("loopback", state) as server:
        host, victim = register(server), Victim(server.home)
        Host.objects.filter(pk=host.pk).update(python=victim.prepare())
        host.refresh_from_db()
        ready(host)
        for day in (DAY_S, 0, -DAY_S, 0)[: max(2, times)] * max(1, times // 4):
            struck.append(start(host, admin))
            with at(chance.uniform(0, 2), lambda day=day: victim.set_clock(day)):  # type: ignore[misc]
                campaigns.finish(struck[-1])

    count(ledger, 25, struck, before)
    took = [sum(run.manifest["timings"].values()) for run in Run.objects.filter(campaign__in=struck)]
    assert 0 < min(took) <= max(took) < 600


def test_the_duration_of_a_restart_is_measured_by_the_servers_clock(host: Host, admin: User) -> None:
    run = start(host, admin).runs.get()
    run.claim_tick(60)
    body = {"seq": 1, "boot_id": "b", "wall": timezone.now().timestamp() - DAY_S, "mono": 1.0, "kind": "state"}

    Ensemble(run).own.store(protocol.sealed({**body, "data": {"state": "REBOOTING", "step": "boot"}}) + b"\n")

    assert run.agent_state_at is not None
    assert timezone.now() - run.agent_state_at < timedelta(minutes=1)


@often(10)
def test_the_server_is_upgraded_during_a_run(
    host: Host, admin: User, proxy: Proxy, ledger: Ledger, chance: Random, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The next connection brings another agent, which follows the run that the old one started."""
    (old, data), struck, before = ssh.agent_zipapp(), [], take_snapshot()
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)  # so that there is a next tick
    for number in range(times):
        new = trap.salted(data, f"{chance.random()} {number}")
        struck.append(start(host, admin))
        campaigns.drive(lambda: struck[-1].runs.filter(state=Run.State.RUNNING).exists())
        monkeypatch.setattr(ssh, "agent_zipapp", lambda new=new: new)
        proxy.reset()  # as the end of the old server's process does
        campaigns.finish(struck[-1])
        host.refresh_from_db()
        assert (struck[-1].runs.get().manifest["agent"], host.agent_digest) == (old, new[0])
        old = new[0]

    count(ledger, 32, struck, before)


def test_the_proxy_of_these_tests_is_in_between(host: Host, proxy: Proxy, server: remote.Server) -> None:
    before = proxy.connections

    contact.check_host(host)

    assert (host.port, proxy.connections, Path(host.spool_dir).parent) == (proxy.port, before + 1, server.home)
