"""Whether the sizes that the runs of a campaign ask for fit on a host, by its facts: one function per kind of size.

What can never fit fails. What only may not fit, by what was free when the host was checked, is doubtful.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.host import cpulist
from agents.workloads import WORKLOADS
from apps.hosts.models import Host
from apps.tuning import gucs

OK, DOUBTFUL, FAILED = "ok", "doubtful", "failed"
GIB = 1024**3
MOST_OF_MEMORY = 0.8
MOST_IN_PAGES = 0.9  # as the agent has it: a host without a free page kills its processes
DEFAULTS = {
    "shared_buffers": "128MB", "work_mem": "4MB", "max_connections": "100", "superuser_reserved_connections": "3",
    "reserved_connections": "0",
}  # fmt: skip
Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """What a host was checked for, and what to do where it is not as it should be. `field` is the path that asks for
    it and `value` what it asks for, both "" where no single one does."""

    host: str
    check: str
    status: str
    found: str
    wanted: str = ""
    hint: str = ""
    field: str = ""
    value: str = ""

    @property
    def ok(self) -> bool:
        return self.status != FAILED


def size(amount: float) -> str:
    return f"{amount / GIB:,.1f} GiB" if amount >= GIB else f"{amount / GIB * 1024:.0f} MiB"


def free_bytes(facts: Spec, path: str) -> float | None:
    """Bytes that are free on the file system that holds a path; None where the facts do not tell."""
    mounted = {each["mounted_on"]: each.get("free_kb") for each in facts.get("file_systems", [])}
    while path not in mounted and path != "/":
        path = posixpath.dirname(path)
    free = mounted.get(path)
    return None if free is None else free * 1024


def memory(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[Check]:
    """Of the run with the largest shared_buffers."""
    asked = [(_bytes(spec, "shared_buffers"), _asked(spec, "shared_buffers")) for spec in specs if spec["target"]]
    if not asked:
        return
    (most, text), total = max(asked), facts["memory"]["total_kb"] * 1024
    status = FAILED if most >= total else DOUBTFUL if most > MOST_OF_MEMORY * total else OK
    hint = "" if status == OK else "lower shared_buffers: the kernel, backends and the page cache need memory as well"
    wanted = f"{size(most)} of shared_buffers at most"
    field = "settings.postgresql.shared_buffers"
    yield Check(host.name, "memory", status, f"{size(total)} in all", wanted, hint, field, text)


def query_memory(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[Check]:
    """Where work_mem is set: what all clients take together when each uses it once."""
    total = facts["memory"]["total_kb"] * 1024
    for spec in _largest(specs, lambda spec: _clients(spec) * _bytes(spec, "work_mem"), "work_mem"):
        clients, each = _clients(spec), _bytes(spec, "work_mem")
        needed = _bytes(spec, "shared_buffers") + clients * each
        wanted = f"{size(needed)}: shared_buffers, and work_mem once for each of {_counted(clients, 'client')}"
        status, hint = (DOUBTFUL, "lower work_mem or use fewer clients") if needed > total else (OK, "")
        field, value = "settings.postgresql.work_mem", _asked(spec, "work_mem")
        yield Check(host.name, "memory of queries", status, f"{size(total)} in all", wanted, hint, field, value)


def huge_pages(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[Check]:
    """Of the run with the largest pool. The agent would refuse the run, after the campaign has started."""
    asked = [pool for spec in specs for pool in [_pool(facts, spec)] if pool]
    if not asked:
        return
    pool = max(asked, key=lambda each: (each.status == FAILED, each.status == DOUBTFUL, each.pages * each.kb))
    hint = "" if pool.status == OK else f"at most {_pages(pool.room)} of {_page_size(pool.kb)} fit"
    hint = "a larger pool, or auto" if pool.too_small else hint
    found = f"{size(pool.memory_kb * 1024)} of memory{pool.where}"
    if pool.too_small:
        found = f"a pool of {size(pool.pages * pool.kb * 1024)}, {size(pool.buffers)} of shared_buffers"
    wanted = f"{_pages(pool.pages)} of {_page_size(pool.kb)}{pool.where}, {size(pool.pages * pool.kb * 1024)}"
    yield Check(host.name, "huge pages", pool.status, found, wanted, hint, pool.field, str(pool.pages))


@dataclass(frozen=True)
class _Pool:
    """A pool of pages of `kb` that a run wants, and the memory that it comes from."""

    pages: int
    kb: int
    there: int
    memory_kb: int
    available_kb: int
    buffers: float = 0.0
    where: str = ""
    field: str = "settings.huge_pages.pool"

    @property
    def too_small(self) -> bool:
        """Whether it is smaller than the shared_buffers that it is there for."""
        return self.pages * self.kb * 1024 < self.buffers

    @property
    def room(self) -> int:
        """Pages that fit when nothing else takes memory."""
        return self.there + int(max(0, self.memory_kb - self.there * self.kb) * MOST_IN_PAGES) // self.kb

    @property
    def status(self) -> str:
        if self.pages > self.room or self.too_small:
            return FAILED
        return DOUBTFUL if (self.pages - self.there) * self.kb > self.available_kb * MOST_IN_PAGES else OK


def _pool(facts: Spec, spec: Spec) -> _Pool | None:
    """None where the pool is as large as this PostgreSQL needs, or none is asked for."""
    wanted = spec["settings"].get("huge_pages") or {}
    if wanted.get("use") != "on":
        return None
    kb = _kb(str(wanted["size"])) if "size" in wanted else facts["huge_pages"]["default_kb"]
    known = next((each for each in facts["huge_pages"]["sizes"] if each["kb"] == kb), None)
    if known is None:
        return None  # the plan's own check names the sizes of this host
    memory_kb = {str(node["id"]): node["mem_kb"] for node in facts["numa"]["nodes"]}
    nodes = {node: int(pages) for node, pages in wanted.get("per_node", {}).items()}
    pool = str(wanted.get("pool", "auto"))
    if "nodes" in wanted and pool != "auto":
        on = list(memory_kb) if wanted["nodes"] == "all" else [str(node) for node in cpulist.parse(wanted["nodes"])]
        nodes = dict.fromkeys(on, -(-int(pool) // len(on)))
    total, available = facts["memory"]["total_kb"], facts["memory"].get("available_kb", facts["memory"]["total_kb"])
    if nodes:
        field = "settings.huge_pages.per_node" if "per_node" in wanted else "settings.huge_pages.pool"
        each = [
            _Pool(
                pages,
                kb,
                known["per_node"].get(node, 0),
                memory_kb.get(node, total),
                available,
                where=f" on node {node}",
                field=field,
            )
            for node, pages in nodes.items()
        ]
        return max(each, key=lambda one: one.pages * one.kb / max(1, one.memory_kb))
    if pool == "auto":
        return None
    return _Pool(int(pool), kb, known["total"], total, available, _bytes(spec, "shared_buffers"))


def _kb(text: str) -> int:
    return int(text[:-2]) * gucs.MEMORY[text[-2:]] // 1024


def _page_size(kb: int) -> str:
    return f"{kb // 1024**2} GB" if kb % 1024**2 == 0 else f"{kb // 1024} MB" if kb % 1024 == 0 else f"{kb} kB"


def _pages(count: int) -> str:
    return f"{count:,} {'page' if count == 1 else 'pages'}"


def connections(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[Check]:
    """Of the run whose clients exceed max_connections by most. Unknown for a server whose own file sets it."""
    for spec in _largest(specs, lambda spec: _clients(spec) - _open(spec), ""):
        clients, most = _clients(spec), _number(spec, "max_connections")
        step = max(spec["steps"], key=_of_step)
        found = f"max_connections {_asked(spec, 'max_connections')}, of which {most - _open(spec)} are reserved"
        status, hint = (OK, "") if clients <= _open(spec) else (FAILED, "raise max_connections or use fewer clients")
        option = "clients" if "clients" in step["options"] else "threads"
        field = f"steps.{step['name']}.{option}" if len(spec["steps"]) > 1 else f"workload.{option}"
        wanted = f"{_counted(clients, 'connection')} for the step {step['name']}"
        yield Check(host.name, "connections", status, found, wanted, hint, field, str(clients))


def wal(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[Check]:
    """Where max_wal_size is set: whether as much WAL is free on the file system of the data."""
    free = free_bytes(facts, host.data_dir)
    for spec in _largest(specs, lambda spec: _bytes(spec, "max_wal_size"), "max_wal_size"):
        if free is not None:
            needed = _bytes(spec, "max_wal_size")
            status, hint = (OK, "") if needed <= free else (DOUBTFUL, "lower max_wal_size, or free space there")
            found, field = f"{size(free)} free for {host.data_dir}", "settings.postgresql.max_wal_size"
            value = _asked(spec, "max_wal_size")
            yield Check(host.name, "space for WAL", status, found, f"up to {size(needed)} of WAL", hint, field, value)


def _largest(specs: Sequence[Spec], amount: Any, name: str) -> list[Spec]:
    """The run on a private cluster with the largest amount, of those that set `name`; [] where there is none."""
    able = [spec for spec in specs if (spec["target"] or {}).get("kind") == "private" and _clients(spec)]
    able = [spec for spec in able if not name or name in _parameters(spec)]
    return [max(able, key=amount)] if able else []


def _parameters(spec: Spec) -> Mapping[str, Any]:
    return spec["settings"].get("postgresql") or {}


def _asked(spec: Spec, name: str) -> str:
    return str(_parameters(spec).get(name, DEFAULTS.get(name, "")))


def _bytes(spec: Spec, name: str) -> float:
    """A bare number counts the parameter's own unit, such as 8kB, as PostgreSQL has it."""
    match = gucs.QUANTITY.match(_asked(spec, name))
    scale = gucs.scale_of(gucs.catalogue()[name]["unit"])
    return float(match[1]) * gucs.MEMORY.get(match[2], scale[0] if scale else 1) if match else 0.0


def _number(spec: Spec, name: str) -> int:
    text = _asked(spec, name)
    return int(text) if text.isdigit() else 0


def _open(spec: Spec) -> int:
    """Connections that are open to an ordinary role."""
    kept = sum(_number(spec, name) for name in ("superuser_reserved_connections", "reserved_connections"))
    return _number(spec, "max_connections") - kept


def _clients(spec: Spec) -> int:
    """The most connections that a step of the run opens."""
    return max((_of_step(step) for step in spec["steps"]), default=0)


def _of_step(step: Spec) -> int:
    kind = WORKLOADS.get(step["kind"])
    return kind.connections(step["options"]) if kind else 0


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


SIZES = (memory, query_memory, huge_pages, connections, wal)
