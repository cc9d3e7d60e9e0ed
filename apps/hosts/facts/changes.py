"""Compare two versions of facts: lasting facts, differences, and differences that make runs not comparable. Pure.

A path is a tuple of names. Items of a list that have a name or number are identified by it, not by their position.
Patterns are such paths with `*` for any name, written with `/`; they include everything below them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

# List -> the fields that identify its items.
IDENTITY = {
    "topology": ("cpu",),
    "caches": ("level", "type"),
    "policies": ("cpus",),
    "states": ("name",),
    "nodes": ("id",),
    "sizes": ("kb",),
    "block_devices": ("name",),
    "partitions": ("name",),
    "file_systems": ("mounted_on",),
    "network": ("name",),
    "postgresql": ("bin_dir",),
    "clusters": ("data_dir",),
    "kernels": ("release",),
}
# Values that vary by themselves and are no change of the host.
VOLATILE = (
    "boot_id",
    "unread",
    "memory/free_kb",
    "memory/available_kb",
    "numa/nodes/*/free_kb",
    "huge_pages/sizes/*/free",
    "huge_pages/sizes/*/surplus",
    "huge_pages/sizes/*/reserved",
    "huge_pages/sizes/*/free_per_node",
    "huge_pages/sizes/*/surplus_per_node",
    "file_systems/*/free_kb",
    "clusters/*/pid",
    "clusters/*/found_by",
    "block_devices/loop*",
    "block_devices/zram*",
)
# Facts that make runs before and after a change not comparable. Networks are not included: load uses a local socket.
WEIGHTY = (
    "machine_id",
    "kernel",
    "firmware",
    "virtualization",
    "cpus",
    "numa",
    "memory/total_kb",
    "memory/swap_kb",
    "huge_pages/sizes/*/total",
    "huge_pages/sizes/*/overcommit",
    "transparent_huge_pages",
    "sysctls/vm.*",
    "sysctls/kernel.*",
    "limits",
    "os/tuned_profile",
    "block_devices/*/kb",
    "block_devices/*/model",
    "block_devices/*/scheduler",
    "block_devices/*/read_ahead_kb",
    "block_devices/*/nr_requests",
    "block_devices/*/queue_depth",
    "block_devices/*/write_cache",
    "block_devices/*/rotational",
    "file_systems/*/type",
    "file_systems/*/device",
    "file_systems/*/options",
    "postgresql/*/version",
    "clusters/*/version",
    "clusters/*/running",
    "tools/pgbench/version",
    "tools/fio/version",
    "tools/sysbench/version",
    "tools/numactl/version",
)
# Facts whose presence or absence counts. Others may only be missing because an older agent did not report them.
PRESENCE_COUNTS = ("limits/*", "cpus/isolated", "cpus/nohz_full", "cpus/frequency/policies/*", "os/tuned_profile")
# Firmware, crash kernels and balloons reserve more or less memory at each boot.
SIZES = ("memory/total_kb", "memory/swap_kb", "numa/nodes/*/mem_kb")
SIZE_TOLERANCE = 0.03
SHOWN = 3


@dataclass(frozen=True)
class FactChange:
    """A fact with two different values; None if one side lacks it."""

    parts: tuple[str, ...]
    before: Any
    after: Any

    @property
    def path(self) -> str:
        return ".".join(self.parts)

    @property
    def was(self) -> str:
        return value_text(self.before)

    @property
    def now(self) -> str:
        return value_text(self.after)

    @property
    def weighty(self) -> bool:
        """Whether runs before and after the change are not directly comparable."""
        silent = self.before is None or self.after is None
        return _any(self.parts, PRESENCE_COUNTS if silent else WEIGHTY) and not self.is_small

    @property
    def is_small(self) -> bool:
        """Whether it is a memory size that differs by a few percent, as between two boots or two identical machines."""
        sizes = isinstance(self.before, int) and isinstance(self.after, int) and _any(self.parts, SIZES)
        return sizes and abs(self.before - self.after) <= SIZE_TOLERANCE * max(self.before, self.after)


def lasting(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that define a version: without values that vary by themselves, lists of named items as
    mappings."""
    lasting_facts: dict[str, Any] = _lasting(facts, ())
    clusters = {place: each for place, each in lasting_facts.get("clusters", {}).items() if not _by_hand(facts, place)}
    return lasting_facts | ({"clusters": clusters} if "clusters" in lasting_facts else {})


def _lasting(value: Any, parts: tuple[str, ...]) -> Any:
    inner = _children(value, parts[-1] if parts else "")
    if inner is None:
        return value
    children = {name: (each, (*parts, name)) for name, each in inner.items()}
    return {name: _lasting(each, path) for name, (each, path) in children.items() if not _any(path, VOLATILE)}


def _by_hand(facts: dict[str, Any], data_dir: str) -> bool:
    """Return whether the cluster is only known from its process: it was started by hand and may be gone at the next
    check."""
    cluster = next(each for each in facts["clusters"] if each["data_dir"] == data_dir)
    return cluster.get("found_by") == ["process"] and not cluster.get("unit")


def between(before: dict[str, Any], after: dict[str, Any]) -> list[FactChange]:
    """Return the lasting facts that differ, in the order of their paths."""
    return list(_between(lasting(before), lasting(after), ()))


def _between(before: Any, after: Any, parts: tuple[str, ...]) -> Iterable[FactChange]:
    if before == after:
        return
    name = parts[-1] if parts else ""
    old, new = _children(before, name), _children(after, name)
    if old is None or new is None:
        yield FactChange(parts, before, after)
        return
    for key in sorted(old.keys() | new.keys(), key=_natural):
        yield from _between(old.get(key), new.get(key), (*parts, key))


def _natural(key: str) -> tuple[int, str]:
    """Return the sort key of a name; numbers sort by value: node 10 comes after node 9."""
    return (int(key), "") if key.isdecimal() else (1 << 62, key)


def _children(value: Any, name: str) -> dict[str, Any] | None:
    """Return a mapping, also of a list with named items; None for anything else."""
    if isinstance(value, dict):
        return {str(key): inner for key, inner in value.items()}
    if isinstance(value, list) and name in IDENTITY:
        return {_identity(each, IDENTITY[name], place): each for place, each in enumerate(value)}
    return None


def _identity(item: dict[str, Any], fields: tuple[str, ...], place: int) -> str:
    return " ".join(str(item[field]) for field in fields) if all(field in item for field in fields) else str(place)


@functools.lru_cache(maxsize=1 << 15)
def _any(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Cached, because the same paths occur in the facts of all hosts, in every version."""
    return any(_fits(parts, pattern.split("/")) for pattern in patterns)


def _fits(parts: tuple[str, ...], pattern: list[str]) -> bool:
    return len(parts) >= len(pattern) and all(map(fnmatchcase, parts, pattern))


def weighty(before: dict[str, Any], after: dict[str, Any]) -> list[FactChange]:
    """Return the changes that make runs on both sides not comparable."""
    return [change for change in between(before, after) if change.weighty]


def unlike(first: dict[str, Any], second: dict[str, Any]) -> list[FactChange]:
    """Return the differences that make runs on two hosts not comparable, except their identity."""
    return [change for change in weighty(first, second) if change.parts != ("machine_id",)]


NOT_COMPARABLE = "Runs before and after a change are not directly comparable."


def change_warning(before: str, after: str, changes: list[FactChange]) -> str:
    """Return the warning about a host that changed between two runs, with the first SHOWN changes."""
    return f"The host changed between {before} and {after}: {listed(changes)}. {NOT_COMPARABLE}"


def listed(changes: list[FactChange]) -> str:
    """ "kernel.release 6.1.0-9 → 6.1.0-10 and 2 more", naming the first SHOWN."""
    named = ", ".join(f"{change.path} {change.was} → {change.now}" for change in changes[:SHOWN])
    return f"{named} and {len(changes) - SHOWN} more" if len(changes) > SHOWN else named


def value_text(value: Any) -> str:
    """Return a value for a line of text."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, list):
        return ", ".join(map(value_text, value)) or "nothing"
    if isinstance(value, dict):
        return "; ".join(f"{name} {value_text(each)}" for name, each in value.items()) or "nothing"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
