"""Queues of block devices: the scheduler and what goes with it, of a named device or of that below the run's data."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..errors import NotApplied, Unplannable
from ..host.system import System
from .base import Facts, Plan, Scene, Setting, Write, current

BLOCK = "/sys/block"
DATA = "data"
UNKNOWN = "$DATA"  # in a plan, for the device that only the directory of the run determines
# In the order of writing: a scheduler resets the length of its queue.
_FILES = ("scheduler", "nr_requests", "read_ahead_kb", "rq_affinity", "nomerges", "wbt_lat_usec")
_RESET = ("nr_requests", "wbt_lat_usec")
_QUEUE = {
    "type": "object",
    "properties": {
        "scheduler": {
            "type": "string",
            "pattern": "^[a-z0-9_-]{1,40}$",
            "title": "Scheduler",
            "description": "A scheduler that the kernel offers for the device: none, mq-deadline, kyber, bfq",
        },
        "nr_requests": {
            "type": "integer",
            "minimum": 4,
            "maximum": 65536,
            "title": "Requests in the queue",
            "description": "nr_requests: with scheduler none, at most the device's own limit",
        },
        "read_ahead_kb": {
            "type": "integer",
            "minimum": 0,
            "maximum": 1048576,
            "title": "Read-ahead (kB)",
            "description": "Read ahead for sequential reads; a multiple of 4 kB",
        },
        "rq_affinity": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2,
            "title": "Completion on the requesting CPU",
            "description": "rq_affinity: 0 any CPU, 1 a CPU of its group, 2 the same CPU",
        },
        "nomerges": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2,
            "title": "No merging of requests",
            "description": "nomerges: 0 merge, 1 simple merges only, 2 never",
        },
        "wbt_lat_usec": {
            "type": "integer",
            "minimum": 0,
            "maximum": 1000000,
            "title": "Write-back throttling (us)",
            "description": "wbt_lat_usec: read latency that background writes must not exceed; 0 off",
        },
    },
    "additionalProperties": False,
}


class BlockDevice(Setting):
    name = "block_device"
    title = "Block devices"
    help = "Scheduler, read-ahead and queue of the device below the data, or of named devices (restored afterwards)"
    unit = "see each field"
    risk = "changes I/O for all users of the device during the run"
    level = "root"
    schema = {
        "type": "object",
        "title": "Block devices",
        "description": "By name as in /sys/block; data is the device below the run's data directory",
        "properties": {DATA: {**_QUEUE, "title": "Device below the data directory"}},
        "propertyNames": {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_!-]{1,64}$",
            "description": "data, or a device's name",
        },
        "additionalProperties": _QUEUE,
    }

    def discover(self, system: System) -> dict[str, Any]:
        return {name: _queue(system, name) for name in system.names(BLOCK)}

    def plan(self, facts: Facts, requested: Any) -> Plan:
        known = {device["name"]: device for device in facts["block_devices"]}
        writes = []
        for name, queue in requested.items():
            if name != DATA:
                _check_device(known, name, queue)
            _check_read_ahead(name, queue)
            writes += _writes(UNKNOWN if name == DATA else name, queue)
        return Plan(writes=writes)

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        system = scene.system
        top = below(system, scene.data_dir) if DATA in requested else ""
        writes = [one for write in plan.writes for one in spread(system, top, write)]
        _check_once(writes)
        for write in writes:
            _check_file(system, write)
        return plan.with_writes([_with_resets(system, write) for write in writes])


def _queue(system: System, name: str) -> dict[str, Any]:
    paths = {file: f"{BLOCK}/{name}/queue/{file}" for file in _FILES}
    shown = {file: current(system, path) for file, path in paths.items() if system.text(path)}
    return {file: int(value) if value.isdigit() else value for file, value in shown.items()}


def _check_device(known: dict[str, Any], name: str, queue: dict[str, Any]) -> None:
    if name not in known:
        raise Unplannable(
            f"block_device.{name}", queue, f"{DATA}, {', '.join(known) or 'as this host shows no devices'}"
        )
    schedulers = known[name]["schedulers"]
    if "scheduler" in queue and queue["scheduler"] not in schedulers:
        accepted = ", ".join(schedulers) or "nothing, because it has no scheduler"
        raise Unplannable(f"block_device.{name}.scheduler", queue["scheduler"], accepted)


def _check_read_ahead(name: str, queue: dict[str, Any]) -> None:
    kb = queue.get("read_ahead_kb", 0)
    if kb % 4:
        raise Unplannable(f"block_device.{name}.read_ahead_kb", kb, f"a multiple of 4 kB, such as {kb - kb % 4}")


def _writes(device: str, queue: dict[str, Any]) -> list[Write]:
    return [Write(f"{BLOCK}/{device}/queue/{file}", str(queue[file])) for file in _FILES if file in queue]


def spread(system: System, top: str, write: Write) -> list[Write]:
    """The write for each device that is meant. Read-ahead belongs to the device of the file system, all else to the
    disks below it."""
    if UNKNOWN not in write.key:
        return [write]
    devices = [top] if write.key.endswith("/read_ahead_kb") else disks(system, top)
    return [replace(write, key=write.key.replace(UNKNOWN, device)) for device in devices]


def below(system: System, path: str) -> str:
    """Return the whole device below the file system of a directory, as in /sys/block. NotApplied if there is none."""
    if not path:
        raise NotApplied("block_device.data", "a device below the data directory", "a run without a data directory")
    number = _number(path)
    device = system.link(f"/sys/dev/block/{number}")
    if not device:
        actual = f"{path} on device {number}, which is not a block device"
        raise NotApplied("block_device.data", "a block device", actual, "use the name of the device instead of data")
    return _whole(system, os.path.basename(device))


def _number(path: str) -> str:
    """major:minor of a directory, or of its nearest parent that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def disks(system: System, name: str) -> list[str]:
    """The devices at the bottom of one that is put together: dm-0 -> ["sda", "sdb"]; a disk is its own."""
    slaves = system.names(f"{BLOCK}/{name}/slaves")
    wholes = [_whole(system, slave) for slave in slaves]
    return sorted({disk for whole in wholes for disk in disks(system, whole)}) if wholes else [name]


def _whole(system: System, name: str) -> str:
    """The disk of a partition; a disk is its own."""
    place = system.link(f"/sys/class/block/{name}")
    return name if system.exists(f"{BLOCK}/{name}") else os.path.basename(os.path.dirname(place))


def _check_once(writes: list[Write]) -> None:
    values: dict[str, str] = {}
    for write in writes:
        if values.setdefault(write.key, write.wanted) != write.wanted:
            actual = f"{write.wanted} for the same file"
            hint = "data and a named device are the same device: keep one of them"
            raise NotApplied("block_device", f"{write.key} = {values[write.key]}", actual, hint)


def _check_file(system: System, write: Write) -> None:
    choices = system.text(write.key)
    if not choices:
        raise NotApplied("block_device", f"{write.key} = {write.wanted}", "this kernel has no such file")
    if write.key.endswith("/scheduler") and write.wanted not in choices.replace("[", "").replace("]", "").split():
        raise NotApplied("block_device", f"{write.key} = {write.wanted}", f"a device with {choices}")


def _with_resets(system: System, write: Write) -> Write:
    """Add the files that the kernel resets with another scheduler: its queue and parameters."""
    if not write.key.endswith("/scheduler"):
        return write
    queue = write.key[: -len("/scheduler")]
    own = [f"{queue}/iosched/{name}" for name in system.names(f"{queue}/iosched")]
    files = [*(f"{queue}/{name}" for name in _RESET), *own]
    return replace(write, resets=tuple(file for file in files if system.text(file)))
