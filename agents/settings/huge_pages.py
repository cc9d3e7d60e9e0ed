"""Huge pages for shared memory: PostgreSQL's parameter, and the kernel's pool that it takes them from."""

from __future__ import annotations

import re
from typing import Any

from ..errors import NotApplied, Unplannable
from ..facts import meminfo
from .base import Facts, Plan, Proof, Scene, Setting, Write

POOL = "/proc/sys/vm/nr_hugepages"
SETTLE_S = 5.0
# Of the memory that is available, at most this share is asked for: a host without a free page kills its processes.
MOST = 0.9
_AUTO = "$(postgres -D $PGDATA -C shared_memory_size_in_huge_pages)"


class HugePages(Setting):
    name = "huge_pages"
    title = "Huge pages"
    help = "Shared memory in huge pages, and a pool in the kernel that is large enough (restored afterwards)"
    unit = "pages of the default size"
    risk = "takes memory from everybody else while the run lasts"
    level = "root"
    schema = {
        "type": "object",
        "title": "Huge pages",
        "properties": {
            "use": {"type": "string", "enum": ["on", "off"], "title": "huge_pages of PostgreSQL"},
            "pool": {
                "title": "Pages in the kernel's pool",
                "description": "auto (what this PostgreSQL needs, 15 or later) or a number of pages in total",
                "anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer", "minimum": 0}],
                "default": "auto",
            },
        },
        "required": ["use"],
        "additionalProperties": False,
    }

    def plan(self, facts: Facts, wanted: Any) -> Plan:
        use, pool = wanted["use"], wanted.get("pool", "auto")
        if use == "off":
            if pool != "auto":
                raise Unplannable("huge_pages.pool", pool, "no pool with use off")
            return Plan(conf={"huge_pages": "off"})
        if not facts["huge_pages"]["default_kb"]:
            raise Unplannable("huge_pages.use", use, "off, as this kernel has no huge pages")
        write = Write(POOL, _AUTO if pool == "auto" else str(pool), settle_s=SETTLE_S)
        return Plan(writes=[write], conf={"huge_pages": "on"})

    def resolve(self, scene: Scene, plan: Plan, wanted: Any) -> Plan:
        if not plan.writes:
            return plan
        needed = _needed(scene, wanted.get("pool", "auto"))
        info = meminfo(scene.system)
        total, spare = info["HugePages_Total"], info["HugePages_Free"] - info["HugePages_Rsvd"]
        target = wanted["pool"] if wanted.get("pool", "auto") != "auto" else total + max(0, needed - spare)
        _check_memory(info, target)
        if needed > target - total + spare:
            raise NotApplied(
                "huge_pages",
                f"{needed} free pages for this shared_buffers",
                f"a pool of {target} pages",
                "ask for a larger pool, or auto",
            )
        return plan.with_writes([Write(POOL, str(target), settle_s=SETTLE_S)])

    def verify(self, scene: Scene, wanted: Any, phase: str) -> list[Proof]:
        written = super().verify(scene, wanted, phase)
        if phase != "before" or not scene.postmaster:
            return written
        return [*written, _mapping(scene, wanted["use"]), *_status(scene, wanted["use"])]


def _needed(scene: Scene, pool: Any) -> int:
    """Pages that the configured server will ask for; 0 where it cannot tell and the user did."""
    if scene.major >= 15 and scene.huge_pages_needed:
        return max(0, scene.huge_pages_needed())
    if pool != "auto":
        return 0
    raise Unplannable(
        "huge_pages.pool",
        "auto",
        f"a number of pages, as PostgreSQL {scene.major} cannot tell its need (15 or later can)",
        "about 1.1 x shared_buffers / 2 MB",
    )


def _check_memory(info: dict[str, int], target: int) -> None:
    size = info["Hugepagesize"]
    more, available = (target - info["HugePages_Total"]) * size, info["MemAvailable"]
    if more > available * MOST:
        raise NotApplied(
            "huge_pages",
            f"{target} pages of {size} kB ({more // 1024} MB more)",
            f"{info['HugePages_Total']} pages, and {available // 1024} MB available, "
            f"which allow {info['HugePages_Total'] + int(available * MOST) // size} pages",
            "the kernel was not asked: it would have taken every free page from the host",
        )


def counters(info: dict[str, int]) -> dict[str, int]:
    """The HugePages_* lines of /proc/meminfo."""
    return {name: value for name, value in info.items() if name.startswith("HugePages_")}


def shared_mapping_kb(smaps: str) -> int:
    """KernelPageSize of the largest shared anonymous mapping, 0 when there is none."""
    largest, page, shared, size = 0, 0, False, 0
    for line in smaps.splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            shared = " rw-s " in line and ("/dev/zero" in line or "/anon_hugepage" in line or "/SYSV" in line)
        elif shared and line.startswith("Size:"):
            size = int(line.split()[1])
        elif shared and line.startswith("KernelPageSize:") and size > largest:
            largest, page = size, int(line.split()[1])
    return page


def _mapping(scene: Scene, use: str) -> Proof:
    info = meminfo(scene.system)
    wanted = info["Hugepagesize"] if use == "on" else 4
    found = shared_mapping_kb(scene.system.text(f"/proc/{scene.postmaster}/smaps"))
    ok = found >= 1024 if use == "on" else 0 < found < 1024  # other architectures have small pages of 16 or 64 kB
    evidence = {"source": "/proc/PID/smaps, /proc/meminfo", "pid": scene.postmaster, **counters(info)}
    return Proof("page size of the shared memory (kB)", wanted, found, ok, evidence)


def _status(scene: Scene, use: str) -> list[Proof]:
    name = "huge_pages_status" if scene.major >= 17 else "huge_pages"
    found = scene.sql(f"select to_json(current_setting('{name}'))") if scene.sql else ""
    return [Proof(name, use, found, found == use, {"source": "pg_settings"})]
