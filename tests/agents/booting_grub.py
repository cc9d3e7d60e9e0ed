"""A machine without kexec, whose GRUB starts its default entry, or once that of custom.cfg. GRUB's own grub-editenv
reads and changes the environment block."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.host.loaders import grub
from agents.settings.kernel_command_line import NAME
from tests.agents.booting import DEFAULT, IMAGE, OWN, Bootable, Host
from tests.agents.dying import RUN
from tests.session import needs

UUID = "0a1b2c3d-1111-2222-3333-444455556666"
DEVICE = "/sys/dev/block/999:1"
LINE = f"{grub.IMAGE}={IMAGE}{OWN} {DEFAULT}"
ADMIN = "saved_entry=Debian"
FACTS = importlib.import_module("agents.facts.boot")  # the package has a function of this name


class WithGrub(Bootable):
    """`root/grub` is GRUB's directory. It has no journal: what was written is what the next boot reads."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.grub, self.writes = root / "grub", True

    def which(self, tool: str) -> str:
        return "" if tool == "kexec" else super().which(tool)

    def read(self, path: str) -> str:
        mount = "1 0 999:1 / / rw - ext4 /dev/sda1 rw\n"
        return mount if path == "/proc/self/mountinfo" else super().read(path)

    def names(self, path: str) -> list[str]:
        return [UUID] if path == "/dev/disk/by-uuid" else super().names(path)

    def link(self, path: str) -> str:
        return "../../sda1" if path in (DEVICE, f"/dev/disk/by-uuid/{UUID}") else super().link(path)

    def edit(self, *command: str) -> str:
        """Run grub-editenv, as an admin, or as GRUB itself would change the block."""
        argv = [str(needs.find_program("grub-editenv")), str(self.grub / "grubenv"), *command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True).stdout

    def next_line(self) -> str:
        """GRUB reads its configuration: it removes the variable if it can write, and only then starts the entry."""
        custom = self.grub / "custom.cfg"
        if not custom.exists() or f"{grub.VARIABLE}={RUN}" not in self.edit("list").splitlines() or not self.writes:
            return LINE
        self.edit("unset", grub.VARIABLE)
        image, parameters = re.findall(r"^\s*linux '(\S+)' (.*)$", custom.read_text(), re.MULTILINE)[0]
        return " ".join([f"{grub.IMAGE}={image}", *shlex.split(parameters)])

    def next_release(self, line: str) -> str:
        return line.split()[0].removeprefix(f"{grub.IMAGE}={IMAGE}")

    def reboot(self) -> None:
        super().reboot()
        if self.is_armed:  # the run, which the shutdown ends
            os.kill(os.getpid(), signal.SIGTERM)

    @property
    def is_armed(self) -> bool:
        return grub.VARIABLE in self.edit("list")


class GrubHost(Host):
    default = LINE
    machine: WithGrub

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any] | None = None) -> None:
        machine = WithGrub(root)
        machine.grub.mkdir()
        (machine.grub / "grub.cfg").write_text("source ${config_directory}/custom.cfg\n")
        machine.edit("create")
        machine.edit("set", ADMIN)
        monkeypatch.setattr(FACTS, "GRUB_DIRECTORIES", (str(machine.grub),))
        ours = {**(settings or {"skew_tick": 1}), "contact_limit_s": 60, "boot_with": "grub"}
        super().__init__(root, {NAME: ours}, machine)
        self.files = self.read_files()

    def read_files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.machine.grub.iterdir()}

    def is_as_before(self) -> bool:
        return super().is_as_before() and self.read_files() == self.files
