"""Virtual machines, booted once per topology and registered with the server like any host."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts import contact, services
from apps.hosts.access import hops, links, ssh
from apps.hosts.models import Host
from tests.lab.machines.lab import NEEDS, locked
from tests.lab.machines.machine import Machine
from tests.lab.machines.topologies import DEFAULT, TOPOLOGIES, Topology
from tests.servers import campaigns

HERE = Path(__file__).parent
PATIENCE_S = 900.0
BASE = "/var/lib/proving-ground"


@dataclass
class Lab:
    """One machine at a time; the time that the tests on each topology took."""

    current: Machine | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    accelerator: str = ""

    def machine(self, topology: Topology) -> Machine:
        if self.current is None or self.current.topology != topology:
            self.stop()
            self.current = Machine(topology)
        self.current.up()
        self.accelerator = self.current.accelerator
        return self.current

    def stop(self) -> None:
        if self.current is not None:
            self.current.down()
            self.current = None


LAB = pytest.StashKey[Lab]()


def topology_of(item: pytest.Item) -> Topology:
    mark = item.get_closest_marker("topology")
    return TOPOLOGIES[mark.args[0]] if mark else DEFAULT


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "topology(name): the machine of tests/lab/machines that a test runs on")
    config.stash[LAB] = Lab()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each machine boots once: tests on the same topology follow one another. Missing programs skip a test at once."""
    names = list(TOPOLOGIES)
    for item in items:
        if "vm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("root", *NEEDS))
    items.sort(key=lambda item: names.index(topology_of(item).name) if HERE in item.path.parents else -1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began = time.monotonic()
    result = yield
    if "vm" in getattr(item, "fixturenames", ()):
        item.config.stash[LAB].seconds.setdefault(topology_of(item).name, []).append(time.monotonic() - began)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lab = config.stash[LAB]
    if lab.accelerator:
        terminalreporter.section(f"lab ({lab.accelerator})")
        for name, seconds in lab.seconds.items():
            terminalreporter.line(f"{TOPOLOGIES[name]}: {len(seconds)} tests in {sum(seconds) / 60:.0f} minutes")


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Iterator[Lab]:
    """The lab, for this test session alone."""
    running = pytestconfig.stash[LAB]
    with locked("tests"):
        yield running
        if not os.environ.get("PROVING_LAB_KEEP"):
            running.stop()


@pytest.fixture
def vm(request: pytest.FixtureRequest, lab: Lab) -> Machine:
    """The machine of the test's topology, running."""
    return lab.machine(topology_of(request.node))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated machine takes ten times as long as a host, and more when this one is busy."""
    monkeypatch.setattr(hops, "CONNECT_S", 120.0)
    monkeypatch.setattr(ssh, "CALL_S", 120.0)
    monkeypatch.setattr(ssh, "OPEN_S", 240.0)
    monkeypatch.setattr(links, "GREET_S", 60.0)
    monkeypatch.setattr(ssh.Link.call, "__defaults__", (120.0,))
    monkeypatch.setattr(contact, "ASK_S", 240.0)
    monkeypatch.setattr(campaigns.drive, "__defaults__", (PATIENCE_S,))
    monkeypatch.setattr(campaigns.finish, "__defaults__", (PATIENCE_S,))


def register(vm: Machine, admin: User, **fields: Any) -> Host:
    """Add the VM as a host at level root, and check it."""
    identity = services.create_identity("lab", private_key=Path(vm.where["key"]).read_text(), by=admin)
    host = services.add_host(
        by=admin,
        name=vm.name,
        address=vm.where["host"],
        port=int(vm.where["port"]),
        sudo=True,
        identity=identity,
        spool_dir=f"{BASE}/spool",
        data_dir=f"{BASE}/clusters",
        **fields,
    )
    services.approve_host_key(host, services.fetch_host_key(host, by=admin).fingerprint, by=admin)
    contact.check_host(host)
    host.refresh_from_db()
    assert (host.state, host.level) == (Host.State.READY, "root"), host.state_reason
    return host


@pytest.fixture
def host(admin: User, vm: Machine) -> Host:
    """The VM at level root, checked; its agent has nothing left of an earlier test."""
    return register(vm, admin, user=vm.where["user"], may_reboot=True)


@pytest.fixture
def supervised(host: Host, admin: User) -> Host:
    """The same under systemd."""
    services.install_units(host, by=admin)
    host.refresh_from_db()
    assert (host.supervisor, host.units) == ("systemd", "current")
    return host


def read_settings(vm: Machine) -> dict[str, Any]:
    """Every setting of the guest, once its boot has ended."""
    vm.shell("systemctl is-system-running --wait", check=False)
    return dict(json.loads(vm.shell("sudo python3 -I -", stdin=(HERE / "read_settings.py").read_bytes())))


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


def starts(vm: Machine) -> int:
    """The number of boots of the guest, from its own log of logins."""
    return vm.shell("last -x reboot").count("system boot")


def wait(done: Callable[[], bool], limit_s: float = 300, every_s: float = 1.0) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(every_s)
