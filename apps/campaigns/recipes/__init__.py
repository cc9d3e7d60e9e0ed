"""Campaigns as data: each YAML file beside this one asks a question and scales itself to the host's facts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.errors import PlanError

Recipe = dict[str, Any]


@cache
def catalogue() -> dict[str, Recipe]:
    """name -> recipe, in the order of their file names."""
    files = sorted(Path(__file__).parent.glob("*.yaml"))
    read = [yaml.safe_load(file.read_text()) for file in files]
    return {recipe["name"]: recipe for recipe in read}


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
        return {"name": factor["name"], "levels": factor["levels"]}
    levels = GENERATORS[factor["generate"]](facts)
    return {
        "name": factor["name"],
        "levels": [{"label": label, "set": {factor["path"]: value}} for label, value in levels],
    }


def cpu_doubling(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """1, 2, 4 ... cpus and all of them, taken core by core so that SMT siblings come last."""
    allowed = parse_cpus(facts["cpus"]["allowed"])
    ordered = sorted(allowed, key=_place(facts))
    counts = [1 << i for i in range(len(ordered).bit_length()) if 1 << i <= len(ordered)]
    if counts[-1] != len(ordered):
        counts.append(len(ordered))
    return [(_cpus(count), ",".join(map(str, sorted(ordered[:count])))) for count in counts]


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


def parse_cpus(cpulist: str) -> list[int]:
    """ "0-2,5" -> [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in cpulist.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


GENERATORS = {"cpu_doubling": cpu_doubling}
