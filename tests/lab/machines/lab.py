"""The directory of image, key and machines, and the programs that the lab needs."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.session import needs

LAB = Path(os.environ.get("PROVING_LAB_DIR") or "/var/tmp/proving-lab").resolve()
MACHINES = LAB / "machines"
KEY = LAB / "id_ed25519"
NEEDS = ("qemu", "qemu-img", "debootstrap", "mkfs.ext4", "ssh-keygen")
SBIN = "/usr/sbin:/sbin"


class LabError(Exception):
    """The lab cannot do this; the message says what to do."""


def require_programs() -> None:
    missing = [need for need in map(needs.find, NEEDS) if need.is_missing]
    if missing:
        raise LabError("\n".join(f"the lab {need.reason}" for need in missing))


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of the lab; other processes wait."""
    LAB.mkdir(parents=True, exist_ok=True)
    with (LAB / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def emulator_pid(state: Path) -> int | None:
    """The process that runs the machine of this state directory; a pid that another process got does not count."""
    try:
        pid = int((state / "pid").read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(state / "pid") in arguments else None


def public_key() -> str:
    """The public half of the lab's SSH key, created at first use."""
    LAB.mkdir(parents=True, exist_ok=True)
    if not KEY.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "proving-lab", "-f", KEY], check=True)
    return KEY.with_suffix(".pub").read_text()
