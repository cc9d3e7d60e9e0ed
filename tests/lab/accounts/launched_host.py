"""The guest as docs/hosts.md describes a host: one account may only start the launcher, another one runs the load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agents import launcher
from agents.build import launcher_source
from apps.accounts.models import User
from apps.hosts.access import signing
from apps.hosts.models import Host, hosts
from tests.lab.conftest import BASE, register
from tests.lab.machines import guest
from tests.lab.machines.machine import Machine

ACCOUNT, LOAD = "proving", "proving-load"
POLICY = f"{launcher.CONFIG}/policy.json"
SUDOERS = f"/etc/sudoers.d/{ACCOUNT}"


def write(vm: Machine, path: str, text: str, mode: str = "644") -> None:
    vm.shell(f"sudo install -D -m {mode} /dev/stdin {path}", stdin=text.encode())


def narrow(vm: Machine, **policy: Any) -> None:
    write(vm, POLICY, json.dumps({"spool": f"{BASE}/spool", **policy}))


def _install(vm: Machine) -> None:
    vm.shell(f"id {ACCOUNT} || sudo useradd --create-home --shell /bin/bash {ACCOUNT}")
    vm.shell(f"id {LOAD} || sudo useradd --system --shell /usr/sbin/nologin {LOAD}")
    home, keys = f"/home/{ACCOUNT}/.ssh", f"/home/{guest.USER}/.ssh/authorized_keys"
    vm.shell(f"sudo install -d -m 700 -o {ACCOUNT} {home} && sudo install -m 600 -o {ACCOUNT} {keys} {home}/")
    write(vm, SUDOERS, f"{ACCOUNT} ALL=(root) NOPASSWD: {hosts.LAUNCHER}\n", "440")
    write(vm, hosts.LAUNCHER, launcher_source(), "755")
    write(vm, f"{launcher.CONFIG}/signers", signing.signers())


def _remove(vm: Machine) -> None:
    vm.shell(f"sudo pkill -KILL -u {ACCOUNT}; sudo userdel --force --remove {ACCOUNT}", check=False)
    vm.shell(f"sudo rm -rf {SUDOERS} {hosts.LAUNCHER} {launcher.CONFIG} {launcher.STORE}")


@contextmanager
def registered(vm: Machine, admin: User) -> Iterator[Host]:
    """A ready host at level root, through the launcher. Afterwards the guest is as before."""
    _install(vm)
    try:
        yield register(vm, admin, user=ACCOUNT, launcher=True, os_user=LOAD)
    finally:
        _remove(vm)
