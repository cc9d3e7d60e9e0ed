"""Block devices with their queues, and the file systems on them."""

from __future__ import annotations

import re
from typing import Any

from ..host.system import System
from .read import bracketed, choices, flag, known, number

BLOCK = "/sys/block"
SECTOR_KB = 0.5  # /sys counts in units of 512 bytes, for each sector size of the device
# Network file systems: they have no device, and their sizes are not read, because that may hang.
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "fuse.glusterfs", "9p", "virtiofs")
IN_MEMORY = ("/dev/shm", "/tmp")  # noqa: S108 - mount points to check
POOLED = ("zfs", "btrfs", "overlay")
DEVICE = {"queue_depth": "queue_depth", "node": "numa_node"}  # only SCSI reports the depth
OCTAL = re.compile(r"\\([0-7]{3})")


def block_devices(system: System) -> list[dict[str, Any]]:
    """Every device that has a size; partitions below their disk."""
    mounted = _mount_points(system)
    sized = (name for name in system.names(BLOCK) if _kb(system, f"{BLOCK}/{name}"))
    return [_device(system, name, mounted) for name in sized]


def _kb(system: System, path: str) -> int:
    return int((number(system, f"{path}/size") or 0) * SECTOR_KB)


def _device(system: System, name: str, mounted: dict[str, list[str]]) -> dict[str, Any]:
    path = f"{BLOCK}/{name}"
    scheduler = system.text(f"{path}/queue/scheduler")
    texts = {"model": f"{path}/device/model", "write_cache": f"{path}/queue/write_cache"}
    counts = {"read_ahead_kb": "read_ahead_kb", "nr_requests": "nr_requests", "rq_affinity": "rq_affinity"}
    counts |= {"logical_block_bytes": "logical_block_size", "physical_block_bytes": "physical_block_size"}
    parts = [part for part in system.names(path) if system.exists(f"{path}/{part}/partition")]
    return {
        "name": name,
        "kb": _kb(system, path),
        **known((ours, system.text(file)) for ours, file in texts.items()),
        "scheduler": bracketed(scheduler),
        "schedulers": choices(scheduler),
        **known((ours, number(system, f"{path}/queue/{theirs}")) for ours, theirs in counts.items()),
        **known([("rotational", flag(system, f"{path}/queue/rotational"))]),
        **known((name, number(system, f"{path}/device/{file}")) for name, file in DEVICE.items()),
        "holders": system.names(f"{path}/holders"),
        "mounted_on": mounted.get(_number(system, path), []),
        "partitions": [_partition(system, path, part, mounted) for part in parts],
    }


def _number(system: System, path: str) -> str:
    """major:minor, by which mounts name a device."""
    return system.text(f"{path}/dev")


def _partition(system: System, disk: str, name: str, mounted: dict[str, list[str]]) -> dict[str, Any]:
    path = f"{disk}/{name}"
    return {
        "name": name,
        "kb": _kb(system, path),
        "holders": system.names(f"{path}/holders"),
        "mounted_on": mounted.get(_number(system, path), []),
    }


def mounts(system: System) -> list[dict[str, Any]]:
    """/proc/self/mountinfo: the last mount on a place is the one that is seen there."""
    mounts = {}
    for line in system.text("/proc/self/mountinfo").splitlines():
        fields, _, tail = line.partition(" - ")
        _, _, device, root, place, options = fields.split(" ")[:6]
        kind, source, superblock = [*tail.split(" "), "", ""][:3]
        every = dict.fromkeys([*options.split(","), *superblock.split(",")])
        mounts[_unescaped(place)] = {
            "mounted_on": _unescaped(place),
            "device": _unescaped(source),
            "number": device,
            "root": _unescaped(root),
            "type": kind,
            "options": [option for option in every if option],
        }
    return list(mounts.values())


def _unescaped(text: str) -> str:
    return OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)


def _mount_points(system: System) -> dict[str, list[str]]:
    points: dict[str, list[str]] = {}
    for mount in mounts(system):
        points.setdefault(mount["number"], []).append(mount["mounted_on"])
    return points


def file_systems(system: System) -> list[dict[str, Any]]:
    """Return file systems that can hold data: no pseudo file systems, container layers or read-only images."""
    return [_file_system(system, mount) for mount in mounts(system) if _holds_data(mount)]


def _holds_data(mount: dict[str, Any]) -> bool:
    kind, place = str(mount["type"]), str(mount["mounted_on"])
    if kind == "overlay":
        return place == "/"
    on_device = not str(mount["number"]).startswith("0:") and kind != "squashfs"
    return on_device or kind in (*REMOTE, *POOLED) or (kind == "tmpfs" and place in IN_MEMORY)


def _file_system(system: System, mount: dict[str, Any]) -> dict[str, Any]:
    space = None if mount["type"] in REMOTE else system.space(mount["mounted_on"])
    size, free = space or (None, None)
    if mount["type"] == "zfs":
        size = None  # a ZFS data set has no size: it shows its own use, and the free space of the pool
    shown = {name: mount[name] for name in ("mounted_on", "device", "type", "options")}
    return {**shown, **known([("kb", size), ("free_kb", free)])}
