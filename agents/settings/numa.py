"""Where PostgreSQL's memory comes from, by numactl; children inherit the policy from the postmaster."""

from __future__ import annotations

import re
from typing import Any

from .. import cpulist
from ..errors import Unplannable
from .base import Facts, Plan, Proof, Scene, Setting

# Policy -> numactl's option, and the word of numa_maps (newer kernels write `interleave:0`, older `interleave=0`).
_OPTIONS = {
    "interleave": "--interleave",
    "localalloc": "--localalloc",
    "membind": "--membind",
    "preferred": "--preferred",
    "cpunodebind": "--cpunodebind",
}
_WORDS = {"interleave": "interleave", "localalloc": "local", "membind": "bind", "preferred": "prefer"}
# A shared mapping has a policy of its own, which stays `default` whatever the process was given.
_SHARED = re.compile(r"file=(/dev/zero|/SYSV|/dev/shm|/anon_hugepage|/memfd)")
_PAGES = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_KB = re.compile(r"kernelpagesize_kB=(\d+)")


class Numa(Setting):
    name = "numa"
    title = "NUMA policy"
    help = "Starts PostgreSQL under numactl with a memory policy, or bound to the cpus of nodes"
    unit = "policy and node list"
    risk = "none: ends with the processes"
    tools = ("numactl",)
    schema = {
        "type": "object",
        "title": "NUMA policy",
        "properties": {
            "policy": {
                "type": "string",
                "title": "Policy",
                "enum": ["default", *_OPTIONS],
                "description": "numactl's own words; default starts PostgreSQL without numactl",
            },
            "nodes": {
                "type": "string",
                "title": "Nodes",
                "pattern": r"^(all|\d+(-\d+)?(,\d+(-\d+)?)*)$",
                "description": "A list of nodes (0-1) or all; one node for preferred, none for default and localalloc",
            },
        },
        "required": ["policy"],
        "additionalProperties": False,
    }

    def plan(self, facts: Facts, wanted: Any) -> Plan:
        policy = wanted["policy"]
        nodes = _nodes(facts, wanted)
        if policy == "default":
            return Plan()
        if not facts["tools"].get("numactl"):
            raise Unplannable("numa.policy", policy, "default, as numactl is not installed", "install numactl")
        option = _OPTIONS[policy]
        return Plan(server_prefix=["numactl", f"{option}={cpulist.render(nodes)}" if nodes else option])

    def verify(self, scene: Scene, wanted: Any, phase: str) -> list[Proof]:
        processes = scene.server_processes()
        if phase == "before":
            return [_proof(scene, wanted, process.pid, "postmaster") for process in processes[:1]]
        if phase == "during":
            return [_proof(scene, wanted, process.pid, "backend") for process in processes[1:][-1:]]
        return []


def _nodes(facts: Facts, wanted: Any) -> list[int]:
    """The nodes meant; none where the policy takes none."""
    policy, text = wanted["policy"], wanted.get("nodes", "")
    known = [int(node["id"]) for node in facts["numa"]["nodes"]]
    if policy in ("default", "localalloc"):
        if text:
            raise Unplannable("numa.nodes", text, f"no nodes with {policy}")
        return []
    nodes = known if text in ("all", "") else cpulist.parse(text)
    if set(nodes) - set(known):
        raise Unplannable("numa.nodes", text, f"nodes of this host: {cpulist.render(known)}")
    if policy == "preferred" and len(nodes) != 1:
        raise Unplannable("numa.nodes", text, "one node with preferred")
    return nodes


def policies(numa_maps: str) -> set[str]:
    """Policy words of the private mappings, without their nodes where they name none: {"interleave:0-1"}."""
    lines = (line.split(" ", 2) for line in numa_maps.splitlines() if not _SHARED.search(line))
    return {line[1].replace("=", ":") for line in lines if len(line) > 1}


def pages(numa_maps: str) -> dict[str, dict[str, int]]:
    """kB per node: {"shared": {"0": 1024, ...}, "private": {...}}."""
    found: dict[str, dict[str, int]] = {"shared": {}, "private": {}}
    for line in numa_maps.splitlines():
        kb = int((_PAGE_KB.search(line) or ["", "4"])[1])
        kind = found["shared" if _SHARED.search(line) else "private"]
        for node, count in _PAGES.findall(line):
            kind[node] = kind.get(node, 0) + int(count) * kb
    return found


def _proof(scene: Scene, wanted: Any, pid: int, subject: str) -> Proof:
    policy, nodes = wanted["policy"], _nodes(scene.facts, wanted)
    maps = scene.system.text(f"/proc/{pid}/numa_maps")
    evidence = {"source": "/proc/PID/numa_maps", "pid": pid, "kb_per_node": pages(maps)}
    if policy == "cpunodebind":
        return _bound(scene, nodes, pid, subject, evidence)
    found = policies(maps)
    word, listed = _WORDS.get(policy, "default"), cpulist.render(nodes)
    accepted = {f"{word}:{listed}" if listed else word}
    if policy == "localalloc":
        accepted.add("prefer")  # kernels before 5.14 have no word of its own for it
    return Proof(subject, sorted(accepted)[0], " ".join(sorted(found)), bool(found) and found <= accepted, evidence)


def _bound(scene: Scene, nodes: list[int], pid: int, subject: str, evidence: dict[str, Any]) -> Proof:
    cpus = {cpu for n in scene.facts["numa"]["nodes"] if n["id"] in nodes for cpu in cpulist.parse(n["cpus"])}
    wanted = cpulist.render(cpus & set(cpulist.parse(scene.facts["cpus"]["allowed"])))
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)", scene.system.text(f"/proc/{pid}/status"), re.MULTILINE)
    shown = found.group(1) if found else "none"
    inside = set(cpulist.parse(shown if found else "")) <= cpus
    return Proof(subject, f"cpus of node {cpulist.render(nodes)}: {wanted}", shown, bool(found) and inside, evidence)
