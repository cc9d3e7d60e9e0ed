"""A machine without kexec, whose systemd-boot starts its first entry, or once that of LoaderEntryOneShot."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agents.host.loaders import systemd_boot
from agents.settings.kernel_command_line import NAME
from tests.agents.booting import DEFAULT, OTHER, OWN, Bootable, Host

FACTS = importlib.import_module("agents.facts.systemd_boot")
INFO, LOADER = "systemd-boot 252.39-1~deb12u1", "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
PARTITION = "F63E169E-EC17-F641-AA59-A9BA2F164167"
DISK = "../../devices/pci0000:00/block/sda"
LINKS = {
    "/sys/dev/block/999:1": f"{DISK}/sda1",
    "/sys/class/block/sda1": f"{DISK}/sda1",
    f"/dev/disk/by-partuuid/{PARTITION.lower()}": "../../sda1",
}


def entry_of(release: str) -> str:
    return f"title Debian\nversion {release}\nlinux /{release}/linux\ninitrd /{release}/initrd\noptions {DEFAULT}\n"


def variable_of(text: str, attributes: int = 6) -> bytes:
    return bytes([attributes, 0, 0, 0]) + f"{text}\0".encode("utf-16-le")


def line_of(entry: str) -> str:
    """The command line with which version 252 starts the kernel of an entry."""
    (initrd,), (options,) = (systemd_boot.parsed(entry)[key] for key in ("initrd", "options"))
    return " ".join(["initrd=" + initrd.replace("/", "\\"), options])


LINE = line_of(entry_of(OWN))


class WithSystemdBoot(Bootable):
    """`root/esp` is the EFI system partition, `root/efivars` has the variables."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.esp, self.variables, self.deletes = root / "esp", root / "efivars", True
        self.entries = self.esp / "loader/entries"

    def which(self, tool: str) -> str:
        return "" if tool == "kexec" else super().which(tool)

    def read(self, path: str) -> str:
        mounts = f"1 0 999:1 / {self.esp} rw - vfat /dev/sda1 rw\n2 0 0:9 / {self.variables} rw - efivarfs none rw\n"
        return mounts if path == "/proc/self/mountinfo" else super().read(path)

    def exists(self, path: str) -> bool:
        return path.startswith(("/lib/modules/", systemd_boot.EFI)) or super().exists(path)

    def link(self, path: str) -> str:
        return LINKS.get(path) or super().link(path)

    def variable(self, name: str) -> Path:
        return self.variables / f"{name}-{LOADER}"

    @property
    def is_armed(self) -> bool:
        return self.variable(systemd_boot.ONE_SHOT).exists()

    def next_line(self) -> str:
        """systemd-boot removes the variable, and starts its entry if that is there, else the default."""
        name = systemd_boot.ONE_SHOT
        chosen = self.variable(name).read_bytes()[4:].decode("utf-16-le").rstrip("\0") if self.is_armed else ""
        if self.is_armed and self.deletes:
            self.variable(name).unlink()
        entry = self.entries / chosen
        return line_of(entry.read_text()) if chosen and entry.exists() else LINE

    def next_release(self, line: str) -> str:
        return OTHER if OTHER in line else OWN

    def reboot(self) -> None:
        super().reboot()
        if self.is_armed:  # the run, which the shutdown ends
            os.kill(os.getpid(), signal.SIGTERM)


class SystemdBootHost(Host):
    default = LINE
    machine: WithSystemdBoot

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any] | None = None) -> None:
        machine = WithSystemdBoot(root)
        machine.entries.mkdir(parents=True)
        machine.variables.mkdir()
        for release in (OWN, OTHER):
            (machine.esp / release).mkdir()
            for name in ("linux", "initrd"):
                (machine.esp / release / name).touch()
            (machine.entries / f"debian-{release}.conf").write_text(entry_of(release))
        for name, text in {
            "LoaderInfo": INFO,
            "LoaderEntrySelected": f"debian-{OWN}.conf",
            "LoaderDevicePartUUID": PARTITION,
        }.items():
            machine.variable(name).write_bytes(variable_of(text))
        monkeypatch.setattr(FACTS, "PLACES", (str(machine.esp),))
        monkeypatch.setattr(systemd_boot, "VARIABLES", str(machine.variables))
        ours = {**(settings or {"skew_tick": 1}), "contact_limit_s": 60, "boot_with": "systemd-boot"}
        super().__init__(root, {NAME: ours}, machine)
        self.files = self.read_files()

    def read_files(self) -> dict[str, bytes]:
        folders = (self.machine.esp, self.machine.variables)
        return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}

    def is_as_before(self) -> bool:
        return super().is_as_before() and self.read_files() == self.files
