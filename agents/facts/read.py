"""Small readers that all kinds of facts share."""

from __future__ import annotations

import re
from typing import Any, Iterable, Optional

from ..host import cpulist
from ..host.system import System

CPUS, NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"


def number(system: System, path: str) -> Optional[int]:
    """The whole number in a file; None where the kernel has no such file, or does not know (-1)."""
    text = system.text(path)
    return int(text) if text.isdigit() else None


def online_cpus(system: System) -> str:
    """The cpus that run, as a list; those that we may use where /sys is not there."""
    return system.text(f"{CPUS}/online") or cpulist.render(system.allowed_cpus())


def flag(system: System, path: str) -> Optional[bool]:
    """0 or 1 in a file; None if there is no such file."""
    value = number(system, path)
    return None if value is None else bool(value)


def bracketed(text: str) -> str:
    """ "always [madvise] never" -> "madvise"."""
    match = re.search(r"\[([^\]]+)\]", text)
    return match.group(1) if match else text


def choices(text: str) -> list[str]:
    """ "always [madvise] never" -> ["always", "madvise", "never"]."""
    return re.sub(r"[\[\]]", "", text).split()


def known(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The facts that are known; unknown ones are left out, not guessed."""
    return {name: value for name, value in pairs if value not in (None, "")}
