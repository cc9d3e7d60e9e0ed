"""Whether PostgreSQL's shared memory lies in huge pages: from its mappings, its parameters, and the kernel's pools."""

from __future__ import annotations

import re
from typing import Any

from ...facts.memory import HUGE, meminfo, node_ids
from ...facts.read import NODES
from ...host.numa_maps import parse
from ...host.system import System
from ..base import Proof, Scene

SMALL_KB = 1024  # what other architectures call a small page has 16 or 64 kB
TOUCHED_KB = 64  # a backend that was just forked has touched no more


def prove(scene: Scene, kb: int, phase: str, sized: bool) -> list[Proof]:
    """Proofs of a phase for pages of `kb` (0: none requested); `sized` when huge_page_size was set, too."""
    if not scene.postmaster:
        return []
    if phase == "before":
        return [_mapping(scene, kb), *_parameters(scene, kb, sized)]
    if phase == "during":
        return _backend(scene, kb)
    return [_mapping(scene, kb)]


def pools(system: System, kb: int) -> dict[str, Any]:
    """The counters of one size: {"total", "free", "reserved", "surplus", "per_node": {"0": {"total", "free"}}}."""
    names = {"total": "nr", "free": "free", "reserved": "resv", "surplus": "surplus"}
    return {**_counters(system, HUGE, kb, names), "per_node": _per_node(system, kb)}


def _per_node(system: System, kb: int) -> dict[str, dict[str, int]]:
    names = {"total": "nr", "free": "free"}
    return {str(node): _counters(system, f"{NODES}/node{node}/hugepages", kb, names) for node in node_ids(system)}


def _counters(system: System, base: str, kb: int, names: dict[str, str]) -> dict[str, int]:
    path = f"{base}/hugepages-{kb}kB"
    return {ours: int(system.text(f"{path}/{theirs}_hugepages", "0")) for ours, theirs in names.items()}


def shared_mapping_kb(smaps: str) -> int:
    """Return the KernelPageSize of the largest shared anonymous mapping, 0 if there is none."""
    largest, page, shared, size = 0, 0, False, 0
    for line in smaps.splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            shared = " rw-s " in line and ("/dev/zero" in line or "/anon_hugepage" in line or "/SYSV" in line)
        elif shared and line.startswith("Size:"):
            size = int(line.split()[1])
        elif shared and line.startswith("KernelPageSize:") and size > largest:
            largest, page = size, int(line.split()[1])
    return page


def _mapping(scene: Scene, kb: int) -> Proof:
    """Read the postmaster's mapping. It has touched little of the segment, so its smaps is cheap."""
    actual = shared_mapping_kb(scene.system.text(f"/proc/{scene.postmaster}/smaps"))
    evidence = {"source": "/proc/PID/smaps, HugePages_* of /proc/meminfo", "pid": scene.postmaster}
    return _page_size("page size of the shared memory (kB)", scene, kb, actual, evidence)


def _backend(scene: Scene, kb: int) -> list[Proof]:
    """Read the newest backend's mapping from numa_maps, in a third of the time of smaps (4 GB, small pages)."""
    for process in scene.server_processes()[:0:-1]:
        maps = parse(scene.system.text(f"/proc/{process.pid}/numa_maps"))
        touched = [mapping for mapping in maps if mapping.segment and sum(mapping.kb.values()) > TOUCHED_KB]
        if touched:
            largest = max(touched, key=lambda mapping: sum(mapping.kb.values()))
            evidence = {"source": "kernelpagesize_kB of /proc/PID/numa_maps", "pid": process.pid, "name": process.name}
            return [
                _page_size("page size of the shared memory of a backend (kB)", scene, kb, largest.page_kb, evidence)
            ]
    return []


def _page_size(subject: str, scene: Scene, kb: int, actual: int, evidence: dict[str, Any]) -> Proof:
    info = meminfo(scene.system)
    evidence.update({name: value for name, value in info.items() if name.startswith("HugePages_")})
    if kb:
        evidence["pool"] = pools(scene.system, kb)
    return Proof(subject, kb or 4, actual, actual == kb if kb else 0 < actual < SMALL_KB, evidence)


def _parameters(scene: Scene, kb: int, sized: bool) -> list[Proof]:
    if not scene.sql:
        return []
    use, name = "on" if kb else "off", "huge_pages_status" if scene.major >= 17 else "huge_pages"
    actual = scene.sql(f"select to_json(current_setting('{name}'))")
    proofs = [Proof(name, use, actual, actual == use, {"source": "pg_settings"})]
    if sized:
        size = scene.sql("select to_json(setting::int) from pg_settings where name = 'huge_page_size'")
        proofs.append(Proof("huge_page_size (kB)", kb, size, size == kb, {"source": "pg_settings"}))
    return proofs
