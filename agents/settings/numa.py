"""NUMA nodes of PostgreSQL's memory and CPUs, set by numactl and inherited by all its processes."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..facts.memory import WEIGHTS
from ..host import cpulist
from ..host.system import System
from .base import Facts, Plan, Proof, Scene, Setting, Write
from .proofs import numa as proofs

# Policy -> systemd's word for NUMAPolicy=; it has none for those that came to the kernel last.
_POLICIES = {
    "interleave": "interleave",
    "weighted-interleave": "",
    "localalloc": "local",
    "membind": "bind",
    "preferred": "preferred",
    "preferred-many": "",
}
_NODES = r"^(all|\d+(-\d+)?(,\d+(-\d+)?)*)$"


class Numa(Setting):
    name = "numa"
    title = "NUMA policy"
    help = "Starts PostgreSQL under numactl with a memory policy, bound to the CPUs of nodes, or both"
    unit = "policy and node list"
    risk = "none: ends with the processes (weights are restored)"
    tools = ("numactl",)
    schema = {
        "type": "object",
        "title": "NUMA policy",
        "properties": {
            "policy": {
                "type": "string",
                "title": "Memory policy",
                "enum": ["default", *_POLICIES],
                "default": "default",
                "description": "policies of numactl; default lets the kernel allocate on the node of the process",
            },
            "nodes": {
                "type": "string",
                "title": "Memory nodes",
                "pattern": _NODES,
                "description": "A list of nodes (0-1) or all; one node for preferred, none for default and localalloc",
            },
            "cpunodebind": {
                "type": "string",
                "title": "CPUs of nodes",
                "pattern": _NODES,
                "description": "Run only on the CPUs of these nodes (0-1 or all), with any memory policy",
            },
            "weights": {
                "type": "object",
                "title": "Weights of nodes",
                "description": (
                    "Number of consecutive pages on each node, for weighted-interleave; requires level root and "
                    "Linux 6.9"
                ),
                "propertyNames": {"pattern": r"^\d+$", "description": "the number of a NUMA node"},
                "additionalProperties": {
                    "type": ["integer", "string"],
                    "pattern": r"^([1-9]\d?|1\d\d|2[0-4]\d|25[0-5])$",
                    "minimum": 1,
                    "maximum": 255,
                    "description": "1 to 255",
                },
            },
        },
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        """A server that is started without us has the policy default."""
        from ..facts.memory import numa

        return {"policy": "default", "weights": numa(system).get("weights", {})}

    def begins_anew(self, part: str) -> str:
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        policy, nodes, bound = (
            requested.get("policy", "default"),
            memory_nodes(facts, requested),
            cpu_nodes(facts, requested),
        )
        options = _options(facts, policy, nodes)
        unit = {"NUMAPolicy": _POLICIES[policy]} if _POLICIES.get(policy) else {}
        if unit and nodes:
            unit["NUMAMask"] = cpulist.render(nodes)
        if bound:
            options.append(_cpus(facts, bound))
            unit["CPUAffinity"] = cpulist.render(proofs.cpus_of(facts, bound))
        if options and not facts["tools"].get("numactl"):
            raise Unplannable("numa.policy", policy, "default, because numactl is not installed", "install numactl")
        writes = _weights(facts, policy, requested.get("weights", {}))
        return Plan(writes=writes, server_prefix=["numactl", *options] if options else [], unit=unit)

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        auto = scene.facts["numa"].get("weights_auto", "")
        if plan.writes and auto and scene.system.text(auto) == "true" and not _chooses(scene.system, auto):
            raise Unplannable(
                "numa.weights",
                requested["weights"],
                "no weights: this kernel chooses them, and cannot return to that because it has no table of bandwidths",
                f"switch that off manually (echo false > {auto}); then weights can be set and restored",
            )
        return plan

    def act(self, scene: Scene, requested: Any, moment: str) -> list[Proof]:
        if moment == "warm":
            proofs.note(scene)
        return []

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        nodes, bound = memory_nodes(scene.facts, requested), cpu_nodes(scene.facts, requested)
        policy = requested.get("policy", "default")
        return [*super().verify(scene, requested, phase), *proofs.prove(scene, policy, nodes, bound, phase)]


def _chooses(system: System, auto: str) -> bool:
    """Whether the kernel can choose the weights again; if it does already, requesting that changes nothing."""
    try:
        system.write(auto, "true")
    except OSError:
        return False
    return True


def memory_nodes(facts: Facts, requested: Any) -> list[int]:
    """The nodes that the policy is about; none where it takes none."""
    policy, text = requested.get("policy", "default"), requested.get("nodes", "")
    if policy in ("default", "localalloc"):
        if text:
            raise Unplannable("numa.nodes", text, f"no nodes with {policy}")
        return []
    nodes = listed_nodes(facts, "numa.nodes", text or "all", having="memory")
    if policy == "preferred" and len(nodes) != 1:
        raise Unplannable("numa.nodes", text, "one node with preferred")
    return nodes


def cpu_nodes(facts: Facts, requested: Any) -> list[int]:
    """The nodes whose cpus are meant; none when any may run PostgreSQL."""
    if "cpunodebind" not in requested:
        return []
    return listed_nodes(facts, "numa.cpunodebind", requested["cpunodebind"], having="cpus")


def listed_nodes(facts: Facts, field: str, text: str, having: str) -> list[int]:
    """Nodes that have cpus, or memory: numactl refuses to run on the others, and the kernel allocates nothing there."""
    key = {"cpus": "cpus", "memory": "mem_kb"}[having]
    able = [int(node["id"]) for node in facts["numa"]["nodes"] if node[key]]
    nodes = able if text == "all" else cpulist.parse(text)
    if set(nodes) - set(able):
        raise Unplannable(field, text, f"nodes of this host with {having}: {cpulist.render(able)}")
    return nodes


def _options(facts: Facts, policy: str, nodes: list[int]) -> list[str]:
    if policy == "default":
        return []
    option = f"--{policy}"
    newer = policy in ("preferred-many", "weighted-interleave")
    if newer and facts["tools"].get("numactl") and option not in facts["tools"]["numactl"].get("options", []):
        raise Unplannable(
            "numa.policy", policy, f"a policy that this numactl supports; it has no {option}", "install a newer numactl"
        )
    return [f"{option}={cpulist.render(nodes)}" if nodes else option]


def _cpus(facts: Facts, bound: list[int]) -> str:
    """The option that binds to the CPUs of nodes. numactl knows no node without memory, only its CPUs."""
    if all(node["mem_kb"] for node in facts["numa"]["nodes"] if node["id"] in bound):
        return f"--cpunodebind={cpulist.render(bound)}"
    return f"--physcpubind={cpulist.render(proofs.cpus_of(facts, bound))}"


def _weights(facts: Facts, policy: str, weights: dict[str, Any]) -> list[Write]:
    known = facts["numa"].get("weights", {})
    if policy == "weighted-interleave" and not known:
        raise Unplannable("numa.policy", policy, "interleave; weights need Linux 6.9, and this kernel has none")
    if weights and policy != "weighted-interleave":
        raise Unplannable("numa.weights", weights, f"no weights with {policy}")
    if set(weights) - set(known):
        raise Unplannable("numa.weights", weights, f"nodes of this host: {', '.join(known)}")
    # After the first written weight, the kernel no longer chooses them. Restoring this last makes it choose again.
    modes = [{facts["numa"]["weights_auto"]: "false"} if facts["numa"].get("weights_auto") else {}]
    changed = [node for node in sorted(weights, key=int) if int(weights[node]) != known[node]]
    return [
        Write(f"{WEIGHTS}/node{node}", str(int(weights[node])), also=modes[0] if node == changed[0] else {})
        for node in changed
    ]
