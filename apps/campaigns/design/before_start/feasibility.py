"""Whether the sizes that the runs of a campaign ask for fit on a host, by its facts: one function per kind of size.

A size that can never fit fails. A size that may not fit, by what was free at the last check of the host, is doubtful.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.host import cpulist
from agents.settings import huge_pages as setting
from agents.workloads import WORKLOADS
from apps.hosts.facts import topology
from apps.hosts.models import Host
from apps.tuning import gucs
from common.wording import counted

OK, DOUBTFUL, FAILED = "ok", "doubtful", "failed"
GIB = 1024**3
MOST_OF_MEMORY = 0.8
DEFAULTS = {
    "shared_buffers": "128MB", "work_mem": "4MB", "max_connections": "100", "superuser_reserved_connections": "3",
    "reserved_connections": "0",
}  # fmt: skip
Spec = Mapping[str, Any]


@dataclass(frozen=True)
class StartCheck:
    """The result of a check of a host, and what to do if it is not ok. `field` is the path whose `value` requires it;
    both are "" if no single path does."""

    host: str
    check: str
    status: str
    actual: str
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
    """Bytes that are free on the file system of a path; None if the facts do not include them."""
    free_kb = topology.free_kb(facts, path)
    return None if free_kb is None else free_kb * 1024


def memory(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Whether the largest shared_buffers of all runs fit into memory."""
    buffers = [(_bytes(spec, "shared_buffers"), _parameter(spec, "shared_buffers")) for spec in specs if spec["target"]]
    if not buffers:
        return
    (most, text), total = max(buffers), topology.memory_kb(facts) * 1024
    status = FAILED if most >= total else DOUBTFUL if most > MOST_OF_MEMORY * total else OK
    hint = "" if status == OK else "lower shared_buffers: the kernel, backends and the page cache need memory as well"
    expected = f"{size(most)} for shared_buffers"
    field = "settings.postgresql.shared_buffers"
    yield StartCheck(host.name, "memory", status, f"{size(total)} of memory", expected, hint, field, text)


def query_memory(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Whether memory suffices if each client uses work_mem once, for runs that set work_mem."""
    total = topology.memory_kb(facts) * 1024
    for spec in _largest(specs, lambda spec: _clients(spec) * _bytes(spec, "work_mem"), "work_mem"):
        clients, each = _clients(spec), _bytes(spec, "work_mem")
        needed = _bytes(spec, "shared_buffers") + clients * each
        expected = f"{size(needed)}: shared_buffers, and work_mem once for each of {counted(clients, 'client')}"
        status, hint = (DOUBTFUL, "lower work_mem or use fewer clients") if needed > total else (OK, "")
        field, value = "settings.postgresql.work_mem", _parameter(spec, "work_mem")
        yield StartCheck(
            host.name, "memory of queries", status, f"{size(total)} of memory", expected, hint, field, value
        )


def huge_pages(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Whether the pool that fits worst fits. Without this check, the agent refuses the run after the start."""
    pools = [pool for spec in specs for pool in _pools(facts, spec)]
    if not pools:
        return
    pool = max(pools, key=lambda each: (each.status == FAILED, each.status == DOUBTFUL, each.share))
    hint = "" if pool.status == OK else f"at most {pool.counted(pool.room)} fit"
    hint = "set a larger pool, or auto" if pool.too_small else hint
    actual = f"{size(pool.memory_kb * 1024)} of memory{pool.where}"
    if pool.too_small:
        actual = f"a pool of {size(pool.bytes)}, {size(pool.buffers)} of shared_buffers"
    expected = f"{pool.counted(pool.pages)}{pool.where}, {size(pool.bytes)}"
    yield StartCheck(host.name, "huge pages", pool.status, actual, expected, hint, pool.field, str(pool.pages))


@dataclass(frozen=True)
class _Pool:
    """A pool of huge pages of `kb` that a run requests, the `there` pages that the host has, and the memory for it."""

    pages: int
    kb: int
    there: int
    memory_kb: int
    available_kb: int
    buffers: float = 0.0
    where: str = ""
    field: str = "settings.huge_pages.pool"

    @property
    def bytes(self) -> int:
        return self.pages * self.kb * 1024

    @property
    def share(self) -> float:
        """Of the memory that it comes from."""
        return self.pages * self.kb / max(1, self.memory_kb)

    @property
    def too_small(self) -> bool:
        """Whether shared_buffers do not fit into it."""
        return self.bytes < self.buffers

    @property
    def room(self) -> int:
        """Pages that fit if nothing else takes memory."""
        return self.there + int(max(0, self.memory_kb - self.there * self.kb) * setting.MOST) // self.kb

    @property
    def status(self) -> str:
        if self.pages > self.room or self.too_small:
            return FAILED
        return DOUBTFUL if (self.pages - self.there) * self.kb > self.available_kb * setting.MOST else OK

    def counted(self, pages: int) -> str:
        return f"{counted(pages, 'page')} of {setting.shown(self.kb)}"


def _pools(facts: Spec, spec: Spec) -> list[_Pool]:
    """The pools whose pages a run counts itself, one for each node that it names; [] if PostgreSQL counts them."""
    option = spec["settings"].get("huge_pages") or {}
    if option.get("use") != "on":
        return []
    kb = int(_in_bytes(option["size"], "kB")) // 1024 if "size" in option else facts["huge_pages"]["default_kb"]
    known = next((each for each in facts["huge_pages"]["sizes"] if each["kb"] == kb), None)
    if known is None:
        return []  # the plan refuses such a size, and names the sizes of this host
    total, available = facts["memory"]["total_kb"], facts["memory"].get("available_kb", facts["memory"]["total_kb"])
    memory_kb = {str(node["id"]): node["mem_kb"] for node in facts["numa"]["nodes"]}
    pool, field = str(option.get("pool", "auto")), "settings.huge_pages.pool"
    if "per_node" in option:
        pages, field = {node: int(count) for node, count in option["per_node"].items()}, "settings.huge_pages.per_node"
    elif pool == "auto":
        return []
    elif "nodes" in option:
        nodes = list(memory_kb) if option["nodes"] == "all" else [str(node) for node in cpulist.parse(option["nodes"])]
        pages = dict.fromkeys(nodes, -(-int(pool) // len(nodes)))
    else:
        return [_Pool(int(pool), kb, known["total"], total, available, _bytes(spec, "shared_buffers"))]
    return [
        _Pool(
            count, kb, known["per_node"].get(node, 0), memory_kb.get(node, total), available,
            where=f" on node {node}", field=field,
        )
        for node, count in pages.items()
    ]  # fmt: skip


def connections(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Whether max_connections suffices for the clients of each run on a private cluster."""
    for spec in _largest(specs, lambda spec: _clients(spec) - _open(spec)):
        clients, most = _clients(spec), _number(spec, "max_connections")
        step = max(spec["steps"], key=_of_step)
        actual = f"max_connections {_parameter(spec, 'max_connections')}, of which {most - _open(spec)} are reserved"
        status, hint = (OK, "") if clients <= _open(spec) else (FAILED, "raise max_connections or use fewer clients")
        option = "clients" if "clients" in step["options"] else "threads"
        field = f"steps.{step['name']}.{option}" if len(spec["steps"]) > 1 else f"workload.{option}"
        expected = f"{counted(clients, 'connection')} for the step {step['name']}"
        yield StartCheck(host.name, "connections", status, actual, expected, hint, field, str(clients))


def wal(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Whether max_wal_size fits on the file system of the data, for runs that set it."""
    free = free_bytes(facts, host.data_dir)
    for spec in _largest(specs, lambda spec: _bytes(spec, "max_wal_size"), "max_wal_size"):
        if free is not None:
            needed = _bytes(spec, "max_wal_size")
            status, hint = (OK, "") if needed <= free else (DOUBTFUL, "lower max_wal_size, or free space there")
            actual, field = f"{size(free)} free for {host.data_dir}", "settings.postgresql.max_wal_size"
            value = _parameter(spec, "max_wal_size")
            yield StartCheck(
                host.name, "space for WAL", status, actual, f"up to {size(needed)} of WAL", hint, field, value
            )


def _largest(specs: Sequence[Spec], amount: Callable[[Spec], float], name: str = "") -> list[Spec]:
    """The run with clients on a private cluster that has the largest amount; only of those that set the parameter
    `name`, if given. [] if there is none."""
    private = [spec for spec in specs if (spec["target"] or {}).get("kind") == "private" and _clients(spec)]
    chosen = [spec for spec in private if not name or name in _parameters(spec)]
    return [max(chosen, key=amount)] if chosen else []


def _parameters(spec: Spec) -> Mapping[str, Any]:
    return spec["settings"].get("postgresql") or {}


def _parameter(spec: Spec, name: str) -> str:
    return str(_parameters(spec).get(name, DEFAULTS.get(name, "")))


def _bytes(spec: Spec, name: str) -> float:
    return _in_bytes(_parameter(spec, name), gucs.catalogue()[name]["unit"])


def _in_bytes(text: str, unit: str) -> float:
    """A bare number counts in `unit`, such as 8kB, as in PostgreSQL."""
    match, scale = gucs.QUANTITY.match(text), gucs.scale_of(unit)
    return float(match[1]) * gucs.MEMORY.get(match[2], scale[0] if scale else 1) if match else 0.0


def _number(spec: Spec, name: str) -> int:
    text = _parameter(spec, name)
    return int(text) if text.isdigit() else 0


def _open(spec: Spec) -> int:
    """Connections that an ordinary role can open."""
    reserved = sum(_number(spec, name) for name in ("superuser_reserved_connections", "reserved_connections"))
    return _number(spec, "max_connections") - reserved


def _clients(spec: Spec) -> int:
    """The most connections that a step of the run opens."""
    return max((_of_step(step) for step in spec["steps"]), default=0)


def _of_step(step: Spec) -> int:
    kind = WORKLOADS.get(step["kind"])
    return kind.connections(step["options"]) if kind else 0


SIZES = (memory, query_memory, huge_pages, connections, wal)
