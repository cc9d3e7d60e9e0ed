"""From factors x levels x repetitions to an ordered list of resolved specs. Pure: same input, same plan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.protocol import REBOOT, digest
from apps.campaigns import data, steps
from apps.errors import PlanError
from apps.tuning import rules

MAX_RUNS = 20_000
ROOTS = ("settings", "workload", "steps", "dataset")
ORDERS = ("randomised", "as_given", "descending")
REBOOTS = ("never", "each_repetition", "each_run")
# What a run takes besides its measured seconds, before the host has taught us better.
OVERHEAD_S = 3.0
# A restart of a host that was never seen to restart.
REBOOT_S = 120.0
REBOOT_LIMIT_S = 1800


@dataclass(frozen=True)
class Level:
    """One value of a factor: its name, and the paths that it sets: settings.*, workload.*, steps.* or dataset.*"""

    label: str
    set: Mapping[str, Any]


@dataclass(frozen=True)
class Factor:
    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Part:
    """What another machine does for a run: which host, in what role, and the spec of its job."""

    host: int
    role: str
    spec: Mapping[str, Any]
    digest: str


@dataclass(frozen=True)
class Planned:
    """A run to be: its place, its repetition (both from 0), its levels, and its resolved spec; `loader` is the host
    that runs it where that is not the campaign's."""

    position: int
    block: int
    cell: Mapping[str, str]
    spec: Mapping[str, Any]
    digest: str
    loader: int | None = None
    parts: tuple[Part, ...] = ()


def read_factors(raw: Any) -> tuple[Factor, ...]:
    """Factors from JSON. PlanError naming the field when they are not a design."""
    if not isinstance(raw, list) or not raw:
        raise PlanError("factors", "a campaign needs at least one factor", hint='[{"name": ..., "levels": [...]}]')
    factors = tuple(_read_factor(f"factors.{i}", each) for i, each in enumerate(raw))
    _once("factors", [factor.name for factor in factors])
    return factors


def _read_factor(field: str, raw: Any) -> Factor:
    if not isinstance(raw, Mapping) or not str(raw.get("name", "")).strip():
        raise PlanError(f"{field}.name", "a factor needs a name", hint="for example: server cpus")
    levels = raw.get("levels")
    if not isinstance(levels, list) or not levels:
        raise PlanError(f"{field}.levels", "a factor needs at least one level", hint='[{"label": ..., "set": {...}}]')
    read = tuple(_read_level(f"{field}.levels.{i}", each) for i, each in enumerate(levels))
    _once(f"{field}.levels", [level.label for level in read])
    return Factor(str(raw["name"]).strip(), read)


def _read_level(field: str, raw: Any) -> Level:
    if not isinstance(raw, Mapping) or not str(raw.get("label", "")).strip():
        raise PlanError(f"{field}.label", "a level needs a label", hint="for example: 2 cpus")
    changes = raw.get("set")
    if not isinstance(changes, Mapping):
        raise PlanError(f"{field}.set", f"{changes!r} is not an object", hint='{"settings.cpu_affinity.server": "0"}')
    for path in changes:
        if path.split(".")[0] not in ROOTS or "." not in path:
            raise PlanError(
                f"{field}.set",
                f"{path!r} sets nothing",
                hint="paths begin with settings., workload., steps. or dataset.",
            )
    return Level(str(raw["label"]).strip(), dict(changes))


def _once(field: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise PlanError(field, f"{name!r} stands twice", hint="give each its own name")


def cells(factors: Sequence[Factor]) -> list[tuple[Level, ...]]:
    """Full factorial: every combination of levels, the last factor varying fastest."""
    return list(itertools.product(*(factor.levels for factor in factors)))


def blocks(count: int, repetitions: int, order: str, seed: int) -> list[list[int]]:
    """For each repetition, the cell numbers in the order in which they run."""
    if order not in ORDERS:
        raise PlanError("order", f"{order!r} is not known", hint="one of " + ", ".join(ORDERS))
    given = list(range(count))
    if order == "descending":
        given.reverse()
    if order != "randomised":
        return [list(given) for _ in range(repetitions)]
    shuffle = random.Random(seed)  # noqa: S311 - an order that can be repeated, not a secret
    return [shuffle.sample(given, count) for _ in range(repetitions)]


def expand(
    base: Mapping[str, Any],
    factors: Sequence[Factor],
    repetitions: int,
    order: str,
    seed: int,
    reboot: str = "never",
) -> list[Planned]:
    """All runs of a campaign in order. `base` is a spec without its version."""
    if reboot not in REBOOTS:
        raise PlanError("reboot", f"{reboot!r} is not known", hint="one of " + ", ".join(REBOOTS))
    if not 1 <= repetitions <= 1000:
        raise PlanError("repetitions", f"{repetitions} is not between 1 and 1000")
    combinations = cells(factors)
    total = len(combinations) * repetitions
    if total > MAX_RUNS:
        raise PlanError("factors", f"{total} runs are planned; at most {MAX_RUNS} are allowed", hint="fewer levels")
    specs = [resolve(base, levels) for levels in combinations]
    names = [factor.name for factor in factors]
    rows = blocks(len(combinations), repetitions, order, seed)
    order_of_run = [(block, place, cell) for block, row in enumerate(rows) for place, cell in enumerate(row)]
    planned = []
    for position, (block, place, cell) in enumerate(order_of_run):
        first = reboot == "each_run" or (reboot == "each_repetition" and place == 0)
        spec = restarted(specs[cell]) if first else specs[cell]
        labels = (level.label for level in combinations[cell])
        planned.append(Planned(position, block, dict(zip(names, labels, strict=True)), spec, digest(spec)))
    return planned


def restarted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same run on a host that it restarts first."""
    restart = {"name": "restart", "kind": REBOOT, "options": {"limit_s": REBOOT_LIMIT_S}}
    return {**spec, "steps": [restart, *spec["steps"]]}


def restarts(spec: Mapping[str, Any]) -> int:
    return sum(step["kind"] == REBOOT for step in spec["steps"])


def resolve(base: Mapping[str, Any], levels: Sequence[Level]) -> dict[str, Any]:
    """The spec of one cell, in the shape of agents/protocol.py, valid against the catalogue."""
    by_root: dict[str, dict[str, Any]] = {root: {} for root in ROOTS}
    for level in levels:
        for path, value in level.set.items():
            by_root[path.split(".")[0]][path] = value
    settings = rules.patch({"settings": base["settings"]}, by_root["settings"])
    rules.validate(settings["settings"])
    in_steps = {**by_root["workload"], **by_root["steps"]}
    patched = steps.patch(base["steps"], in_steps)
    dataset, patched = data.resolve(base.get("dataset"), patched, by_root["dataset"], list(in_steps))
    return {**base, "version": 1, "settings": settings["settings"], "dataset": dataset, "steps": patched}


def seconds(spec: Mapping[str, Any], overhead_s: float = OVERHEAD_S, reboot_s: float = REBOOT_S) -> float:
    """About how long a run of this spec takes; of the data only what a run that is there for them makes."""
    made_s = 0.0 if spec["steps"] else data.seconds(spec.get("dataset"))
    return made_s + steps.seconds(spec["steps"]) + overhead_s + restarts(spec) * reboot_s
