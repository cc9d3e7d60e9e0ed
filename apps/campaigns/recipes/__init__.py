"""Campaigns as data: each YAML file beside this one asks a question and scales itself to the host's facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.campaigns import steps as campaign_steps
from apps.campaigns.recipes.scale import DATA_TO_MEMORY, parse_cpus, rows_that_fit, scaled
from apps.campaigns.steps import Step
from apps.errors import PlanError
from apps.hosts.topology import file_system

Recipe = dict[str, Any]
# What a recipe may say of its design; elsewhere that of every campaign stands.
DESIGN = ("design", "cells", "sample", "reboot", "nuisance")


@cache
def catalogue() -> dict[str, Recipe]:
    """name -> recipe, in the order of their file names."""
    files = sorted(Path(__file__).parent.glob("*.yaml"))
    read = [yaml.safe_load(file.read_text()) for file in files]
    return {recipe["name"]: {**recipe, **_told(steps(recipe, {}))} for recipe in read}


def _told(wanted: list[Step]) -> Recipe:
    """What a reader of the catalogue asks of the steps."""
    return {"tools": campaign_steps.kinds(wanted), "load_s": campaign_steps.seconds(wanted)}


def get(name: str) -> Recipe:
    """PlanError when there is no such recipe."""
    if name not in catalogue():
        raise PlanError("recipe", f"{name!r} is not known", hint="known are: " + ", ".join(catalogue()))
    return catalogue()[name]


def factors(recipe: Recipe, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The recipe's factors with their levels, generated from the host's facts where the recipe says so."""
    return [_factor(factor, facts) for factor in recipe["factors"]]


def _factor(factor: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    if "generate" not in factor:
        return factor
    levels = GENERATORS[factor["generate"]](facts)
    named = [{"label": label, "set": _below(factor["path"], value)} for label, value in levels]
    order = {"order": factor["order"]} if "order" in factor else {}
    return {"name": factor["name"], **order, "levels": named}


def _below(path: str, value: Any) -> dict[str, Any]:
    """What a generator names below the factor's path; what it sets of the host is named in full."""
    if not isinstance(value, dict):
        return {path: value}
    return {name if name.startswith("settings.") else f"{path}.{name}": each for name, each in value.items()}


def steps(recipe: Recipe, facts: dict[str, Any]) -> list[Step]:
    """The workload's steps on this host, what is to follow its facts put in; {} where it is not known."""
    return [{**step, "options": _options(step["options"], facts)} for step in recipe["steps"]]


def dataset(recipe: Recipe, facts: dict[str, Any]) -> dict[str, Any] | None:
    """{"kind", "options"} of the recipe's own data set on this host; None where it has none."""
    own = recipe.get("dataset")
    return {**own, "options": _options(own["options"], facts)} if own else None


def _options(options: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    return {name: scaled(value, facts) for name, value in options.items()}


def active_sets(facts: dict[str, Any]) -> list[tuple[str, int]]:
    """Ranges of rows, by the share of the host's memory that they would take; the last is all that there are."""
    rows = rows_that_fit(facts)
    return [(f"{share * 100:.0f} % of memory", int(share * rows)) for share in (0.1, 0.5, 2.0, DATA_TO_MEMORY)]


def directories(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The host's cluster directory and what an admin allowed besides, each told with what it lies on."""
    return [(_lying(facts, path), path) for path in facts["directories"]]


def _lying(facts: dict[str, Any], path: str) -> str:
    mount = file_system(facts, path)
    return f"{path} ({mount['type']} on {mount['device']})" if mount else path


def numa_policies(facts: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Each policy, membind to each node that has memory, and the cpus of one node against those of all."""
    nodes = facts["numa"]["nodes"]
    if len(nodes) < 2:
        raise PlanError(
            "factors",
            "this host has one NUMA node, on which every policy places memory alike",
            hint="choose a host with two nodes or more",
        )
    with_memory = [str(node["id"]) for node in nodes if node["mem_kb"]]
    with_cpus = [str(node["id"]) for node in nodes if node["cpus"]]
    return [
        ("default", {"policy": "default"}),
        ("interleave", {"policy": "interleave", "nodes": ",".join(with_memory)}),
        ("localalloc", {"policy": "localalloc"}),
        *((f"membind {node}", {"policy": "membind", "nodes": node}) for node in with_memory),
        (f"cpus of node {with_cpus[0]}", {"policy": "default", "cpunodebind": with_cpus[0]}),
    ]


def cpu_doubling(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """1, 2, 4 ... cpus and all of them, taken core by core so that SMT siblings come last."""
    ordered = _by_core(facts)
    counts = [1 << i for i in range(len(ordered).bit_length()) if 1 << i <= len(ordered)]
    if counts[-1] != len(ordered):
        counts.append(len(ordered))
    return [(_cpus(count), ",".join(map(str, sorted(ordered[:count])))) for count in counts]


def server_cpus(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """One cpu, and another core where there are cpus left for a tracer then."""
    return [(f"cpu {cpu}", str(cpu)) for cpu in _servers(facts)]


def tracer_cpus(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """No tracer, one on PostgreSQL's cpu, and on another core and another socket that PostgreSQL is never given."""
    ordered, topology = _by_core(facts), {row["cpu"]: row for row in facts["cpus"].get("topology", [])}
    servers = _servers(facts)
    free = [cpu for cpu in ordered if cpu not in servers]
    here = topology.get(servers[0], {}).get("socket")
    near = next((cpu for cpu in free if topology.get(cpu, {}).get("socket") == here), None)
    far = next((cpu for cpu in free if topology.get(cpu, {}).get("socket") != here), None)
    named = {"the same cpu": "server", "another cpu": near, "another socket": far}
    placed = [(f"tracer on {name}", _traced(str(cpu))) for name, cpu in named.items() if cpu is not None]
    return [("no tracer", {"tool": "none"}), *placed]


def _traced(cpus: str) -> dict[str, Any]:
    return {"tool": "strace", "settings.cpu_affinity.tracer": cpus}


def _servers(facts: dict[str, Any]) -> list[int]:
    ordered = _by_core(facts)
    return ordered[:2] if len(ordered) > 2 else ordered[:1]


def _by_core(facts: dict[str, Any]) -> list[int]:
    return sorted(parse_cpus(facts["cpus"]["allowed"]), key=_place(facts))


def _cpus(count: int) -> str:
    return "1 cpu" if count == 1 else f"{count} cpus"


def _place(facts: dict[str, Any]) -> Any:
    """Sort key of a cpu: first thread of each core first, node by node."""
    seen: dict[tuple[int, int], int] = {}
    place: dict[int, tuple[int, int, int]] = {}
    for row in facts["cpus"].get("topology", []):
        core = (row["socket"], row["core"])
        seen[core] = thread = seen.get(core, -1) + 1
        place[row["cpu"]] = (thread, row.get("node") or 0, row["cpu"])
    return lambda cpu: place.get(cpu, (0, 0, cpu))


GENERATORS: dict[str, Callable[[dict[str, Any]], Sequence[tuple[str, Any]]]] = {
    "active_sets": active_sets,
    "cpu_doubling": cpu_doubling,
    "directories": directories,
    "numa_policies": numa_policies,
    "server_cpus": server_cpus,
    "tracer_cpus": tracer_cpus,
}
