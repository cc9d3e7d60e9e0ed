"""Control groups: where they are mounted, the group of a process, and the controllers that a run can use."""

from __future__ import annotations

import re
from typing import Any, Iterable

from .system import System

V2 = ""  # key of the one hierarchy of version 2; those of version 1 have the names of their controllers
SYSTEMD = "/run/systemd/system"  # exists if systemd is PID 1: sd_booted(3)
USED = ("cpu", "cpuset", "io", "memory")  # the controllers that a run can use
# The kernel attributes a write from the page cache to the group that its memory is charged to. Where a group has no
# memory controller, that is the group above it, and io.max would limit reads and direct I/O only.
_ALSO_NEEDED = {"io": "memory"}
_EFFECTS = ("memory.current", "memory.peak", "memory.events", "cpu.stat", "io.stat")
_V1_NAMES = {"blkio": "io"}  # controllers with another name in version 1
BOOT_HINT = (
    "boot with systemd.unified_cgroup_hierarchy=1, or with cgroup_no_v1=all where systemd does not mount control groups"
)


def controllers_for(files: Iterable[str]) -> list[str]:
    """The controllers that a group with these limits needs: "io.max" -> ["io", "memory"]."""
    names = {file.partition(".")[0] for file in files}
    return sorted(names | {_ALSO_NEEDED[name] for name in names if name in _ALSO_NEEDED})


def mounts(system: System) -> dict[str, tuple[str, str]]:
    """Controller, or V2 -> (mount point, group that is mounted there). Of several mounts, the last one."""
    return {name: (place, root) for name, place, root, _ in _mounts(system)}


def _mounts(system: System) -> list[tuple[str, str, str, bool]]:
    """(controller or V2, mount point, group that is mounted there, whether it is writable)."""
    rows = []
    for line in system.text("/proc/self/mountinfo").splitlines():
        fields, _, tail = line.partition(" - ")
        kind, options = tail.split(" ")[0], tail.split(" ")[-1]
        if kind in ("cgroup", "cgroup2"):
            root, place, mode = fields.split(" ")[3:6]
            names = [V2] if kind == "cgroup2" else options.split(",")
            rows += [(name, place, root, "ro" not in mode.split(",")) for name in names]
    return rows


def group_of(system: System, pid: int) -> str:
    """Path of a process's group of version 2, from /proc, such as /system.slice/ssh.service; "" for none."""
    lines = system.text(f"/proc/{pid}/cgroup").splitlines()
    return next((line[len("0::") :] for line in lines if line.startswith("0::")), "")


def directory(system: System, group: str) -> str:
    """The directory with the files of a group of version 2."""
    place, root = mounts(system)[V2]
    inside = group[len(root) :] if root != "/" and group.startswith(root) else group
    return f"{place}/{inside.strip('/')}".rstrip("/")


def kernel_path(system: System, path: str) -> str:
    """The reverse: the path in /proc/PID/cgroup of a process whose group has this directory."""
    place, root = mounts(system)[V2]
    return f"{root.rstrip('/')}/{path[len(place) :].strip('/')}"


def fact(system: System) -> dict[str, Any]:
    """{"version": "2", "hybrid" (both), "1" or "none", "controllers": of version 2 that a run can use, "legacy": those
    that version 1 has, "mount": of version 2, "manager": "systemd" or "", "problem": why a run can use none, or ""}."""
    rows = _mounts(system)
    v2 = {name: (place, writable) for name, place, _, writable in rows}.get(V2)
    named = [_V1_NAMES.get(name, name) for name, *_ in rows if name != V2]
    legacy = sorted(name for name in named if name in USED)
    version = ("hybrid" if legacy else "2") if v2 else "1" if legacy else "none"
    about: dict[str, Any] = {"version": version, "controllers": [], "legacy": legacy, "mount": v2[0] if v2 else ""}
    about["manager"] = "systemd" if system.exists(SYSTEMD) else ""
    problem = _problem(system, about, v2[1] if v2 else False)
    if not problem:
        about["controllers"] = _usable(system, about)
    return {**about, "problem": problem}


def _problem(system: System, about: dict[str, Any], writable: bool) -> str:
    if not about["mount"]:
        kind = "control groups of version 1 only" if about["legacy"] else "no control groups"
        return f"this host has {kind}; version 2 is needed"
    if not writable:
        return f"{about['mount']} is mounted read-only, as in most containers"
    if about["manager"] and not system.which("systemd-run"):
        return "systemd-run is not installed, and on a host with systemd a group has to be a unit of it"
    return ""


def _usable(system: System, about: dict[str, Any]) -> list[str]:
    """Under systemd, and at the true root, which has no cgroup.type: all of version 2. Elsewhere, as in a container,
    those that are on for child groups: the kernel enables no more while the group has processes of its own."""
    mount = about["mount"]
    is_root = bool(about["manager"]) or not system.exists(f"{mount}/cgroup.type")
    text = system.text(f"{mount}/cgroup.{'controllers' if is_root else 'subtree_control'}")
    return sorted(set(text.split()) & set(USED))


def figures(system: System, group: str) -> dict[str, Any]:
    """The counters of a group: {"memory.peak": bytes, "cpu.stat": {"nr_throttled": ...}, ...}, without those that this
    kernel lacks."""
    values: dict[str, Any] = {}
    for file in _EFFECTS:
        text = system.text(f"{group}/{file}")
        if text.isdigit():
            values[file] = int(text)
        elif text:
            values[file] = io_stat(text) if file == "io.stat" else fields(text)
    return values


def fields(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    return {row[0]: int(row[1]) for row in map(str.split, text.splitlines()) if len(row) == 2 and row[1].isdigit()}


def io_stat(text: str) -> dict[str, dict[str, int]]:
    """ "254:0 rbytes=1 wbytes=2" -> {"254:0": {"rbytes": 1, "wbytes": 2}}; a device without I/O has no numbers."""
    rows = (line.split() for line in text.splitlines())
    return {
        row[0]: {key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", " ".join(row[1:]))} for row in rows if row[1:]
    }
