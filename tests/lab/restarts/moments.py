"""Moments of a run that boots its host with an entry of its boot loader, and power cuts at them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.hosts.models import Host
from tests.lab.conftest import BASE, differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts.test_boot import RUN_S, line, spec
from tests.lab.restarts.test_power import forget, sealed, submit

DOWN = "Restarting system"  # on the serial console
JOB = f"{BASE}/spool/jobs/*"
Moment = Callable[[Host, Machine], str]


def written(text: str, path: str, boot_with: str, then_s: float = 0) -> Moment:
    """A moment of a new run: a file contains a text, and some seconds have passed."""
    # Starts before the run: a connection takes seconds on an emulated machine.
    command = f"sudo sh -c 'echo ready; until grep -qs {text} {path}; do :; done; echo reached'"

    def reach(host: Host, vm: Machine) -> str:
        with vm.follow(command) as watcher:
            assert watcher.stdout and watcher.stdout.readline() == b"ready\n"
            run = submit(host, spec(boot_with=boot_with, contact_limit_s=60))
            assert watcher.stdout.readline() == b"reached\n"
            time.sleep(then_s)
            watcher.kill()
        return run

    return reach


def shown(*texts: str, boot_with: str, then_s: float = 0) -> Moment:
    """A moment of a new run: the serial console has shown these texts in this order, and some seconds have passed."""

    def reach(host: Host, vm: Machine) -> str:
        seen = len(vm.console())
        run = submit(host, spec(boot_with=boot_with, contact_limit_s=60))
        for text in texts:
            seen = after(vm, text, seen)
        time.sleep(then_s)
        return run

    return reach


def after(vm: Machine, text: str, seen: int) -> int:
    """Wait for a text in what the console has not `seen` yet. Returns where it ends."""
    wait(lambda: vm.console().find(text, seen) >= 0, limit_s=RUN_S, every_s=0.02)
    return vm.console().find(text, seen) + len(text)


@dataclass(frozen=True)
class Cut:
    """`restarts` of the host by itself after the cut: 0 if its first boot had its own command line."""

    moment: str
    restarts: int
    seconds: float
    manifest: dict[str, Any]
    line: str
    differences: dict[str, Any]

    def __str__(self) -> str:
        figures = f"{self.restarts} more restarts  {self.seconds:5.1f} s  {self.manifest['outcome']:13}"
        changed = f"differences {len(self.differences)} {self.differences or ''}"
        return f"{self.moment:32}  {figures}  {changed}\n  {self.line}"


def cut(host: Host, vm: Machine, moment: str, reach: Moment, before: dict[str, Any]) -> Cut:
    run = reach(host, vm)
    vm.cut_power()
    began = time.monotonic()
    vm.up()
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)
    seconds, manifest = time.monotonic() - began, sealed(vm, run)
    changed = differences(before, read_settings(vm))
    forget(vm, run)
    return Cut(moment, vm.console().count(DOWN), seconds, manifest, line(vm), changed)


def check(cuts: list[Cut], own: str, without_restart: set[str]) -> None:
    """Every run ended clean, and the host has its own command line; `without_restart`: after these moments at once."""
    assert {cut.manifest["outcome"] for cut in cuts} <= {"interrupted", "not_in_effect"}
    assert all(cut.manifest["clean"] for cut in cuts)
    assert [cut.moment for cut in cuts if cut.line != own or cut.differences or cut.manifest["conflicts"]] == []
    assert [cut.moment for cut in cuts if cut.restarts > (cut.moment not in without_restart)] == []
