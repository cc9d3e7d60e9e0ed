"""Whether memory is on the nodes of the policy: numa_maps and cpus of every process, numastat around each step.

Reading all of numa_maps makes the kernel walk a process's page tables: 40 ms for a backend that has touched 4 GB in
pages of 4 kB (smaps: 130 ms), 3 ms for a postmaster. The first line, which has the policy, costs 0.05 ms. So the first
line is read of every process, and the rest only of the postmaster and the newest backends.
"""

from __future__ import annotations

from typing import Any, Optional

from ...errors import Failure
from ...facts.memory import node_ids
from ...facts.read import NODES
from ...host import cpulist, numa_maps
from ...host.numa_maps import Mapping, PerNode
from ...host.system import Process, System
from ..base import Facts, Proof, Scene

HEAD = 256  # bytes that hold the first line's policy
WHOLE = 2  # backends that are read wholly at one time
MANY = 200  # processes that are read
SLOW_S = 1.0  # when reading these took longer, it is not repeated during the step
# The kernel's word for a policy in numa_maps, where it is not numactl's.
_POLICY_NAMES = {
    "weighted-interleave": "weighted interleave",
    "localalloc": "local",
    "membind": "bind",
    "preferred": "prefer",
    "preferred-many": "prefer (many)",
}
_SHMEM = """\
select case when pg_numa_available() then (select json_object_agg(numa_node, bytes) from
  (select numa_node, sum(size) as bytes from pg_shmem_allocations_numa group by 1 order by 1) as by_node) end"""

Stat = dict[str, dict[str, int]]


def prove(scene: Scene, policy: str, nodes: list[int], bound: list[int], phase: str) -> list[Proof]:
    """Policy, cpus and placement of the server's processes now. None if there is no process."""
    observed = _Observed(scene, phase)
    if not observed.rows:
        # A kernel without NUMA has no numa_maps; its policy is default.
        return [_unread(observed)] if observed.of and (bound or policy != "default") else []
    proofs = [_policy(observed, policy, nodes), *([_cpus(scene.facts, observed, bound)] if bound else [])]
    if observed.mappings:
        proofs.append(_placement(observed, policy, nodes))
    if phase == "after":
        proofs[-1].evidence.update(_after(scene))
    return proofs


class _Observed:
    """The server's processes at one time: rows of evidence, and the mappings of those that were read wholly."""

    def __init__(self, scene: Scene, phase: str) -> None:
        self._system, began = scene.system, scene.system.mono()
        everyone = scene.server_processes()
        notes = scene.notes.setdefault("numa", {})
        whole = [*everyone[:1], *everyone[1:][-WHOLE:]] if phase != "during" or not notes.get("slow") else []
        self.of, self.rows, self._maps = len(everyone), list[dict[str, Any]](), list[list[Mapping]]()
        self._reading_s = 0.0
        for process in [*whole, *sample([p for p in everyone if p not in whole], MANY)]:
            self._take(process, process in whole)
        self.read_s = round(scene.system.mono() - began, 3)
        notes["slow"] = notes.get("slow", False) or self._reading_s > SLOW_S
        self.mappings = self._once()

    def _take(self, process: Process, wholly: bool) -> None:
        path = f"/proc/{process.pid}/numa_maps"
        mappings = numa_maps.parse(self._whole(path) if wholly else self._head(path))
        policies = numa_maps.policies(mappings)
        if not policies:
            return  # it ended while it was read
        cpus = self._system.field(f"/proc/{process.pid}/status", "Cpus_allowed_list")
        row = {"pid": process.pid, "name": process.name, "policies": policies, "cpus": cpus, "last_cpu": process.cpu}
        self.rows.append(row)
        if wholly:
            self._maps.append(mappings)

    def _whole(self, path: str) -> str:
        began = self._system.mono()
        text = self._system.text(path)
        self._reading_s += self._system.mono() - began
        return text

    def _head(self, path: str) -> str:
        """The first line, whose end may be cut off; of what follows it, the policy might be."""
        try:
            return self._system.head(path, HEAD).split("\n")[0]
        except OSError:
            return ""

    def _once(self) -> list[Mapping]:
        """Private mappings of all; shared ones of the process that has touched most, because all map the same pages."""
        most: list[Mapping] = []
        for mappings in self._maps:
            shared = [mapping for mapping in mappings if mapping.kind == "shared"]
            most = max(most, shared, key=lambda each: sum(numa_maps.total(each).values()))
        return most + [mapping for mappings in self._maps for mapping in mappings if mapping.kind != "shared"]


def sample(processes: list[Process], most: int) -> list[Process]:
    """Return all processes, or `most` of them, evenly spread over their order."""
    step = max(1.0, len(processes) / most)
    return [processes[int(place * step)] for place in range(min(len(processes), most))]


def _unread(observed: _Observed) -> Proof:
    actual = f"no numa_maps of {observed.of} process(es) could be read"
    return Proof("memory policy", "numa_maps of every process", actual, False, {"source": "/proc/PID/numa_maps"})


def _policy(observed: _Observed, policy: str, nodes: list[int]) -> Proof:
    word, listed = _POLICY_NAMES.get(policy, policy), cpulist.render(nodes)
    accepted = {f"{word}:{listed}" if listed else word}
    if policy == "localalloc":
        accepted.add("prefer")  # what kernels before 3.8 say for it
    actual = sorted({each for row in observed.rows for each in row["policies"]})
    evidence = {
        "source": "/proc/PID/numa_maps",
        "processes": observed.rows,
        "of": observed.of,
        "read_s": observed.read_s,
    }
    return Proof("memory policy", sorted(accepted)[0], " ".join(actual), set(actual) <= accepted, evidence)


def cpus_of(facts: Facts, nodes: list[int]) -> list[int]:
    """The cpus of these nodes that this account may use."""
    cpus = {cpu for node in facts["numa"]["nodes"] if node["id"] in nodes for cpu in cpulist.parse(node["cpus"])}
    return sorted(cpus & set(cpulist.parse(facts["cpus"]["allowed"])))


def _cpus(facts: Facts, observed: _Observed, nodes: list[int]) -> Proof:
    expected = cpulist.render(cpus_of(facts, nodes))
    actual = sorted({row["cpus"] for row in observed.rows if row["cpus"]})
    evidence = {"source": "Cpus_allowed_list of /proc/PID/status", "processes": observed.rows, "of": observed.of}
    return Proof(f"cpus of node {cpulist.render(nodes)}", expected, " ".join(actual), actual == [expected], evidence)


def _placement(observed: _Observed, policy: str, nodes: list[int]) -> Proof:
    """Under membind, no page of ours may lie elsewhere; pages of files that were cached before are not ours."""
    kinds = numa_maps.by_kind(observed.mappings)
    outside = {kind: sum(kb for node, kb in kinds[kind].items() if int(node) not in nodes) for kind in kinds}
    ours = outside["shared"] + outside["private"] if policy == "membind" else 0
    evidence: dict[str, Any] = {
        "source": "/proc/PID/numa_maps of the postmaster and the newest backends",
        "kb_per_node": kinds,
        "kb_per_node_by_policy": numa_maps.by_policy(observed.mappings),
        "share_per_node": _share(kinds["shared"]),
    }
    if policy == "membind":
        evidence.update(kb_outside=ours, tolerated_kb_outside=outside["file"])
    expected = {"membind": f"none outside node {cpulist.render(nodes)}"}.get(policy, f"as placed by {policy}")
    actual = ", ".join(f"node {node}: {kb}" for node, kb in kinds["shared"].items())
    private = f"; private outside: {outside['private']}" if ours and outside["private"] else ""
    return Proof("shared memory by node (kB)", expected, actual + private, ours == 0, evidence)


def _share(per_node: PerNode) -> dict[str, float]:
    whole = sum(per_node.values())
    return {node: round(kb / whole, 3) for node, kb in per_node.items()}


def numastat(system: System) -> Stat:
    """Pages by node since boot, as the kernel counts them: {"node0": {"numa_hit": n, "numa_miss": n, ...}, ...}."""
    counts = {}
    for node in node_ids(system):
        rows = (line.split() for line in system.text(f"{NODES}/node{node}/numastat").splitlines())
        counts[f"node{node}"] = {row[0]: int(row[1]) for row in rows}
    return counts


def note(scene: Scene) -> None:
    """Store numastat before the data are loaded into memory."""
    scene.notes.setdefault("numa", {}).update(numastat=numastat(scene.system), slow=False)


def _after(scene: Scene) -> dict[str, Any]:
    """The change of numastat by the load, and after the last one PostgreSQL's own view of its shared memory."""
    before, after = scene.notes["numa"].get("numastat"), numastat(scene.system)
    evidence: dict[str, Any] = {}
    if before:
        difference = {n: {name: count - before[n].get(name, 0) for name, count in after[n].items()} for n in before}
        evidence.update(numastat_difference=difference, numastat_before=before, numastat_after=after)
    allocations = _allocations(scene)
    return {**evidence, **({"pg_shmem_allocations_numa": allocations} if allocations else {})}


def _allocations(scene: Scene) -> Optional[Any]:
    """Bytes by node, or why there are none. The view touches all of the memory first: later steps would see that."""
    if scene.major < 18 or not scene.sql or not scene.last:
        return None
    try:
        return scene.sql(_SHMEM) or "this PostgreSQL was built without libnuma"
    except Failure as failure:
        return failure.message
