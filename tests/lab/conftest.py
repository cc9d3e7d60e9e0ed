"""A virtual machine, booted once, registered with the server as any host is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts import contact, links, services, ssh
from apps.hosts.models import Host
from tests.lab.machine import Machine

HERE = Path(__file__).parent
BASE = "/var/lib/proving-ground"


@pytest.fixture(scope="session")
def vm() -> Iterator[Machine]:
    lab = os.environ.get("PROVING_LAB")
    if not lab:
        pytest.exit("PROVING_LAB must name a directory with the scripts build, up, down and ssh", returncode=2)
    machine = Machine(Path(lab), os.environ.get("PROVING_LAB_VM", "proving"))
    machine.up()
    yield machine
    if not os.environ.get("PROVING_LAB_KEEP"):
        machine.down()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated machine takes ten times as long as a host, and more when this one is busy."""
    monkeypatch.setattr(ssh, "CONNECT_S", 120.0)
    monkeypatch.setattr(ssh, "CALL_S", 120.0)
    monkeypatch.setattr(ssh, "OPEN_S", 240.0)
    monkeypatch.setattr(links, "GREET_S", 60.0)
    monkeypatch.setattr(ssh.Link.call, "__defaults__", (120.0,))
    monkeypatch.setattr(contact, "ASK_S", 240.0)


@pytest.fixture
def host(admin: User, vm: Machine) -> Host:
    """The VM at level root, checked; its agent has nothing left of an earlier test."""
    vm.up()
    identity = services.create_identity("lab", private_key=Path(vm.where["key"]).read_text(), by=admin)
    host = services.add_host(
        by=admin,
        name=vm.name,
        address=vm.where["host"],
        port=int(vm.where["port"]),
        user=vm.where["user"],
        sudo=True,
        identity=identity,
        spool_dir=f"{BASE}/spool",
        data_dir=f"{BASE}/clusters",
        may_reboot=True,
    )
    services.approve_host_key(host, services.fetch_host_key(host, by=admin).fingerprint, by=admin)
    contact.check_host(host)
    host.refresh_from_db()
    assert (host.state, host.level) == (Host.State.READY, "root"), host.state_reason
    return host


@pytest.fixture
def supervised(host: Host, admin: User) -> Host:
    """The same under systemd."""
    services.install_units(host, by=admin)
    host.refresh_from_db()
    assert (host.supervisor, host.units) == ("systemd", "current")
    return host


def look(vm: Machine) -> dict[str, Any]:
    """Every setting of the guest, once its boot has ended."""
    vm.shell("systemctl is-system-running --wait", check=False)
    return dict(json.loads(vm.shell("sudo python3 -I -", stdin=(HERE / "look.py").read_bytes())))


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


def starts(vm: Machine) -> int:
    """How often the guest was started, as its own log of logins tells."""
    return vm.shell("last -x reboot").count("system boot")


def wait(done: Callable[[], bool], limit_s: float = 300, every_s: float = 1.0) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(every_s)
