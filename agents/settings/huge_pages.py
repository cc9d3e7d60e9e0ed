"""Huge pages for shared memory: PostgreSQL's parameters, and the kernel's pools that it takes them from."""

from __future__ import annotations

import re
from typing import Any

from ..errors import NotApplied, Unplannable
from ..facts.memory import HUGE, meminfo
from ..facts.read import NODES
from ..host.system import System
from .base import Facts, Plan, Proof, Scene, Setting, Write
from .proofs.huge_pages import prove

POOL = "/proc/sys/vm/nr_hugepages"
COMPACT = "/proc/sys/vm/compact_memory"
SETTLE_S = 5.0
# At most this share of the available memory, because a host without free pages kills its processes.
MOST = 0.9
_NEED = "postgres -D $PGDATA -C shared_memory_size_in_huge_pages"
_KB = {"kB": 1, "MB": 1024, "GB": 1024 * 1024}


class HugePages(Setting):
    name = "huge_pages"
    title = "Huge pages"
    help = "Shared memory in huge pages, and a sufficient pool in the kernel (restored afterwards)"
    unit = "pages of one size"
    risk = "takes memory from other programs during the run"
    level = "root"
    schema = {
        "type": "object",
        "title": "Huge pages",
        "properties": {
            "use": {"type": "string", "enum": ["on", "off"], "title": "huge_pages of PostgreSQL"},
            "pool": {
                "type": ["integer", "string"],
                "title": "Pages in the kernel's pool",
                "description": "auto (adds what this PostgreSQL needs), or an exact number of pages (can shrink it)",
                "pattern": r"^(auto|\d+)$",
                "minimum": 0,
                "default": "auto",
            },
            "size": {
                "type": "string",
                "title": "Page size",
                "description": "2MB, 1GB or another of this kernel (PostgreSQL 14 or later); default: the kernel's",
                "pattern": r"^[1-9]\d*(kB|MB|GB)$",
            },
            "nodes": {
                "type": "string",
                "title": "Nodes",
                "description": "Nodes (0-1 or all) that share the pool evenly; default: the kernel chooses",
                "pattern": r"^(all|\d+(-\d+)?(,\d+(-\d+)?)*)$",
            },
            "per_node": {
                "type": "object",
                "title": "Pages per node",
                "description": "Exact number of pages on each named node, instead of pool and nodes",
                "propertyNames": {"pattern": r"^\d+$", "description": "the number of a NUMA node"},
                "additionalProperties": {
                    "type": ["integer", "string"],
                    "pattern": r"^\d+$",
                    "minimum": 0,
                    "description": "a number of pages",
                },
            },
        },
        "required": ["use"],
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        from ..facts.memory import huge_pages

        return {"sizes": huge_pages(system)["sizes"]}

    def begins_anew(self, part: str) -> str:
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        if requested["use"] == "off":
            return _off(requested)
        size = _size(facts, requested)
        nodes = _nodes(size, requested)
        conf = {"huge_pages": "on", **({"huge_page_size": requested["size"]} if "size" in requested else {})}
        if not nodes:
            pool = requested.get("pool", "auto")
            return Plan(writes=[_whole(facts, size, f"$({_NEED})" if pool == "auto" else str(int(pool)))], conf=conf)
        return Plan(
            writes=[_on_node(size["kb"], n, pages) for n, pages in _planned(nodes, requested).items()], conf=conf
        )

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        if not plan.writes:
            return plan
        if "size" in requested and scene.major < 14:
            accepted = f"the kernel's default size, because PostgreSQL {scene.major} has no huge_page_size (since 14)"
            raise Unplannable("huge_pages.size", requested["size"], accepted)
        size = _size(scene.facts, requested)
        kb, nodes = size["kb"], _nodes(size, requested)
        needed = _needed(scene, kb, requested)
        pools = [_Pool(scene.system, kb, node) for node in nodes] or [_Pool(scene.system, kb)]
        targets = _targets(pools, requested, needed, _reserved(scene.system, kb))
        everywhere, more = _Pool(scene.system, kb), sum(pool.more(target) for pool, target in zip(pools, targets))
        _check_need(everywhere, _reserved(scene.system, kb), needed, more)
        for pool, target in [*zip(pools, targets), (everywhere, everywhere.total + more)]:
            _check_memory(pool, target)
        if not nodes:
            return plan.with_writes([_whole(scene.facts, size, str(targets[0]), everywhere.total)])
        return plan.with_writes([_on_node(kb, node, str(target)) for node, target in zip(nodes, targets)])

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        kb = _size(scene.facts, requested)["kb"] if requested["use"] == "on" else 0
        return [*super().verify(scene, requested, phase), *prove(scene, kb, phase, "size" in requested)]


def _off(requested: Any) -> Plan:
    for name in ("pool", "size", "nodes", "per_node"):
        if requested.get(name, "auto") != "auto":
            raise Unplannable(f"huge_pages.{name}", requested[name], f"no {name} with use off")
    return Plan(conf={"huge_pages": "off"})


def _size(facts: Facts, requested: Any) -> dict[str, Any]:
    """The pools of the requested or default size: {"kb", "total", "free", "per_node": {node: pages}}."""
    if not facts["huge_pages"]["default_kb"]:
        raise Unplannable("huge_pages.use", requested["use"], "off, because this kernel has no huge pages")
    known = {size["kb"]: size for size in facts["huge_pages"]["sizes"]}
    kb = _kb(requested["size"]) if "size" in requested else facts["huge_pages"]["default_kb"]
    if kb not in known:
        raise Unplannable("huge_pages.size", requested["size"], f"sizes of this host: {', '.join(map(shown, known))}")
    return dict(known[kb])


def _kb(text: str) -> int:
    return int(text[:-2]) * _KB[text[-2:]]


def shown(kb: int) -> str:
    """2048 -> "2MB", as PostgreSQL and `size` spell it."""
    unit = "GB" if kb % _KB["GB"] == 0 else "MB" if kb % _KB["MB"] == 0 else "kB"
    return f"{kb // _KB[unit]}{unit}"


def _nodes(size: dict[str, Any], requested: Any) -> list[int]:
    """Nodes whose pools are set one by one; none if a total is requested."""
    from ..host import cpulist

    known = sorted(int(node) for node in size["per_node"])
    per_node, text = requested.get("per_node", {}), requested.get("nodes", "")
    if per_node and (text or "pool" in requested):
        raise Unplannable("huge_pages.per_node", per_node, "per_node alone, without pool and nodes")
    field = "huge_pages.per_node" if per_node else "huge_pages.nodes"
    nodes = sorted(int(n) for n in per_node) or (known if text == "all" else cpulist.parse(text))
    if set(nodes) - set(known):
        raise Unplannable(field, per_node or text, f"nodes of this host: {cpulist.render(known) or 'none'}")
    return nodes


def _planned(nodes: list[int], requested: Any) -> dict[int, str]:
    """Return the planned value of each node's pool, as far as it is known before the server runs."""
    if "per_node" in requested:
        return {node: str(int(requested["per_node"][str(node)])) for node in nodes}
    pool = requested.get("pool", "auto")
    if pool == "auto":
        share = f"$(( ($({_NEED}) + {len(nodes) - 1}) / {len(nodes)} ))" if len(nodes) > 1 else f"$({_NEED})"
        return dict.fromkeys(nodes, share)
    return dict(zip(nodes, map(str, _shares(int(pool), len(nodes)))))


def _shares(pages: int, nodes: int) -> list[int]:
    """Divide pages evenly; the remainder goes to the first nodes."""
    return [pages // nodes + (place < pages % nodes) for place in range(nodes)]


def _file(kb: int, node: int) -> str:
    return f"{NODES}/node{node}/hugepages/hugepages-{kb}kB/nr_hugepages"


def _on_node(kb: int, node: int, pages: str) -> Write:
    return Write(_file(kb, node), pages, settle_s=SETTLE_S, nudge=COMPACT)


def _whole(facts: Facts, size: dict[str, Any], pages: str, total: int = 0) -> Write:
    """Return the write of the total. The kernel spreads it over the nodes, so their pools must be restored as well."""
    kb, nodes = size["kb"], sorted(size["per_node"], key=int)
    path = POOL if kb == facts["huge_pages"]["default_kb"] else f"{HUGE}/hugepages-{kb}kB/nr_hugepages"
    bound = pages if not pages.isdigit() or int(pages) >= total else "0"
    also = {_file(kb, int(node)): bound for node in nodes} if len(nodes) > 1 else {}
    return Write(path, pages, settle_s=SETTLE_S, also=also, nudge=COMPACT)


class _Pool:
    """Counters of the pages of one size, on one node or on all, and the memory that they could come from (kB)."""

    def __init__(self, system: System, kb: int, node: Any = None) -> None:
        self.kb, self.node = kb, node
        base = HUGE if node is None else f"{NODES}/node{node}/hugepages"
        self.total, self.free, self.surplus = (
            int(system.text(f"{base}/hugepages-{kb}kB/{name}_hugepages", "0")) for name in ("nr", "free", "surplus")
        )
        self.available_kb = meminfo(system)["MemAvailable"]
        if node is not None:
            # The kernel has no MemAvailable for a node, so take free pages and file pages, which can be moved.
            text = system.text(f"{NODES}/node{node}/meminfo")
            on_node = re.findall(r"(?:MemFree|Active\(file\)|Inactive\(file\)):\s+(\d+) kB", text)
            self.available_kb = min(self.available_kb, sum(map(int, on_node)))

    def grown(self, pages: int) -> int:
        """The value to request for that number of further free pages: the kernel first keeps surplus pages for good."""
        return self.total + pages if pages else self.total - self.surplus

    def more(self, target: int) -> int:
        """Pages that the pool gains, or loses, by this target."""
        return target - max(self.total - self.surplus, min(self.total, target))


def _needed(scene: Scene, kb: int, requested: Any) -> int:
    """Pages that the server will ask for; 0 where that costs a start of it and the pool does not depend on it."""
    auto = "per_node" not in requested and requested.get("pool", "auto") == "auto"
    return scene.huge_pages_needed(kb) if scene.huge_pages_needed and (auto or scene.major >= 15) else 0


def _reserved(system: System, kb: int) -> int:
    """Free pages that are already reserved; the kernel counts them for all nodes together."""
    return int(system.text(f"{HUGE}/hugepages-{kb}kB/resv_hugepages", "0"))


def _targets(pools: list[_Pool], requested: Any, needed: int, reserved: int) -> list[int]:
    """Pages that each pool shall have."""
    if "per_node" in requested:
        return [int(requested["per_node"][str(pool.node)]) for pool in pools]
    if requested.get("pool", "auto") != "auto":
        return _shares(int(requested["pool"]), len(pools))
    missing = max(0, needed - max(0, sum(pool.free for pool in pools) - reserved))
    return [pool.grown(share) for pool, share in zip(pools, _shares(missing, len(pools)))]


def _check_need(everywhere: _Pool, reserved: int, needed: int, more: int) -> None:
    """The server may take pages of any node, those beyond our pools too."""
    if needed > everywhere.free - reserved + more:
        raise NotApplied(
            "huge_pages",
            f"{needed} free pages for this shared_buffers",
            f"a pool of {everywhere.total + more} pages",
            "use a larger pool, or auto",
        )


def _check_memory(pool: _Pool, target: int) -> None:
    more_kb = (target - pool.total) * pool.kb
    if more_kb > pool.available_kb * MOST:
        where = "" if pool.node is None else f" on node {pool.node}"
        allowed = pool.total + int(pool.available_kb * MOST) // pool.kb
        raise NotApplied(
            "huge_pages",
            f"{target} pages of {pool.kb} kB{where} ({more_kb // 1024} MB more)",
            f"{pool.total} pages; {pool.available_kb // 1024} MB available, which allow {allowed} pages",
            "not attempted: the kernel would have taken every free page from the host",
        )
