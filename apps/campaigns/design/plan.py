"""Expand factors x levels x repetitions into an ordered list of resolved specs. Pure: the same input gives the same
plan.

factors.py reads the factors, cells.py selects the combinations, orders.py orders them, and nuisance.py adds the
steps that keep other conditions equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from agents.wire.protocol import BOOT, REBOOT, digest
from apps.campaigns.design import data, nuisance, orders, steps
from apps.campaigns.design.cells import cells
from apps.campaigns.design.factors import ROOTS, Cell, Factor, Level, text_of
from apps.campaigns.design.factors import read as read_factors
from apps.campaigns.design.request import Arrangement
from apps.tuning import rules
from common.errors import PlanError

__all__ = ["Cell", "Factor", "Level", "Planned", "cells_of", "expand", "read_factors", "resolve", "seconds"]

MAX_RUNS = 20_000
BIN_DIR = "target.bin_dir"
REBOOTS = ("never", "each_repetition", "each_run")
# Assumed overhead of a run besides its measured seconds, on a host without earlier runs.
OVERHEAD_S = 3.0
# Assumed restart of a host that has not been measured.
REBOOT_S = 120.0
REBOOT_LIMIT_S = 1800


@dataclass(frozen=True)
class PlannedPart:
    """The job of another machine in a run: its host, its role and its spec."""

    host: int
    role: str
    spec: Mapping[str, Any]
    digest: str


@dataclass(frozen=True)
class Planned:
    """A planned run: its position and its repetition (both from 0), its levels, and its resolved spec.

    `host`: key of the measured host, 0 for the campaign's first one. `loader`: key of the host that runs the load,
    if it is another one."""

    position: int
    block: int
    cell: Mapping[str, str]
    spec: Mapping[str, Any]
    digest: str
    host: int = 0
    loader: int | None = None
    parts: tuple[PlannedPart, ...] = ()


class Job(Protocol):
    """A planned run, or a stored one."""

    @property
    def block(self) -> int: ...
    @property
    def spec(self) -> Mapping[str, Any]: ...


def expand(base: Mapping[str, Any], arrangement: Arrangement) -> list[Planned]:
    """Return all runs of a campaign in order. `base`: a spec without its version."""
    reboot, repetitions = arrangement.reboot, arrangement.repetitions
    if reboot not in REBOOTS:
        raise PlanError("reboot", f"{reboot!r} is not accepted", hint="one of " + ", ".join(REBOOTS))
    if not 1 <= repetitions <= 1000:
        raise PlanError("repetitions", f"{repetitions} is not between 1 and 1000")
    nuisance.check(arrangement.nuisance)
    combinations = cells_of(arrangement)
    total = len(combinations) * repetitions
    if total > MAX_RUNS:
        raise PlanError("factors", f"{total} runs are planned; at most {MAX_RUNS} are allowed", hint="fewer levels")
    _check_names(combinations)
    rows = _rows(combinations, arrangement)
    specs = [nuisance.applied(resolve(base, cell.values()), arrangement.nuisance) for cell in combinations]
    plain = [(spec, digest(spec)) for spec in specs]
    anew = [(spec, digest(spec)) for spec in map(restarted, specs)] if reboot != "never" else plain
    planned: list[Planned] = []
    for block, row in enumerate(rows):
        for place, cell in enumerate(row):
            first = reboot == "each_run" or (reboot == "each_repetition" and place == 0)
            spec, named = (anew if first else plain)[cell]
            labels = {name: level.label for name, level in combinations[cell].items()}
            planned.append(Planned(len(planned), block, labels, spec, named))
    return planned


def cells_of(arrangement: Arrangement) -> list[Cell]:
    """Return the cells of a campaign in the order of its design. The first one is the baseline."""
    factors = read_factors(arrangement.factors)
    return cells(factors, arrangement.design, arrangement.cells, arrangement.sample, arrangement.seed)


def _check_names(combinations: Sequence[Cell]) -> None:
    """PlanError if two cells have the same labels, which name their results; absent factors make that possible."""
    by_name: dict[str, Cell] = {}
    for cell in combinations:
        if by_name.setdefault(text_of(cell), cell) != cell:
            hint = "use distinct labels for their levels"
            raise PlanError("factors", f"two combinations have the same name {text_of(cell)!r}", hint=hint)


def _rows(combinations: Sequence[Cell], arrangement: Arrangement) -> list[list[int]]:
    factors = read_factors(arrangement.factors)
    if arrangement.design == "latin_square" and sum(len(factor.levels) > 1 for factor in factors) <= 1:
        return orders.square(len(combinations), arrangement.repetitions, arrangement.order, arrangement.seed)
    return orders.blocks(combinations, factors, arrangement.repetitions, arrangement.order, arrangement.seed)


def restarted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same run on a host that it restarts first."""
    restart = {"name": "restart", "kind": REBOOT, "options": {"limit_s": REBOOT_LIMIT_S}}
    return {**spec, "steps": [restart, *spec["steps"]]}


def restarts(spec: Mapping[str, Any]) -> int:
    """How often a run restarts its host; with kernel parameters, once before and once after its steps."""
    by_steps = len([step for step in spec["steps"] if step["kind"] == REBOOT])
    return by_steps + (2 if spec.get("settings", {}).get(BOOT) else 0)


def leaves_boot(order: str, one: Job, following: Job) -> bool:
    """Return whether a run leaves its kernel parameters to the run that follows on its host, which needs the same."""
    boots = [_boot(run.spec) for run in (one, following)]
    is_same = boots[0] == boots[1] and boots[0] != {} and one.block == following.block
    return is_same and order == "fewest_restarts"


def _boot(spec: Mapping[str, Any]) -> dict[str, Any]:
    wanted = spec.get("settings", {}).get(BOOT) or {}
    return {
        part: value for part, value in wanted.items() if orders.begins_anew(f"settings.{BOOT}.{part}") == orders.HOST
    }


def count_restarts(runs: Sequence[Planned], order: str) -> int:
    """Return how often these runs restart their hosts in all."""
    hosts: dict[int, list[Planned]] = {}
    for run in runs:
        hosts.setdefault(run.host, []).append(run)
    neighbours = (pair for own in hosts.values() for pair in pairwise(own))
    return sum(restarts(run.spec) for run in runs) - 2 * sum(leaves_boot(order, *pair) for pair in neighbours)


def resolve(base: Mapping[str, Any], levels: Iterable[Level]) -> dict[str, Any]:
    """Return the spec of one cell, in the shape of agents/wire/protocol.py, validated against the catalogue."""
    by_root: dict[str, dict[str, Any]] = {root: {} for root in ROOTS}
    for level in levels:
        for path, value in level.set.items():
            by_root[path.split(".")[0]][path] = value
    settings = rules.patch({"settings": base["settings"]}, by_root["settings"])
    rules.validate(settings["settings"])
    in_steps = {**by_root["workload"], **by_root["steps"]}
    patched = steps.patch(base["steps"], in_steps)
    dataset, patched = data.resolve(base.get("dataset"), patched, by_root["dataset"], list(in_steps))
    placed = {"target": _placed(base["target"], by_root["target"])}
    return {**base, **placed, "version": 1, "settings": settings["settings"], "dataset": dataset, "steps": patched}


def _placed(target: Mapping[str, Any] | None, changes: Mapping[str, Any]) -> Any:
    """Return the target with another PostgreSQL version; an existing server cannot change."""
    for path, value in changes.items():
        if path != BIN_DIR or not isinstance(value, str):
            hint = f"{BIN_DIR}: a directory with the programs of PostgreSQL, for a private cluster"
            raise PlanError(path, f"{value!r} cannot be set by a factor", hint=hint)
        if not target or target["kind"] != "private":
            hint = "use a private cluster as the campaign's PostgreSQL"
            raise PlanError(path, "only a private cluster can use another PostgreSQL", hint=hint)
        target = {**target, "bin_dir": value}
    return target


def seconds(spec: Mapping[str, Any], overhead_s: float = OVERHEAD_S, reboot_s: float = REBOOT_S) -> float:
    """Return the estimated seconds of a run. Of the data, only creation by a run for that purpose counts."""
    made_s = 0.0 if spec["steps"] else data.seconds(spec.get("dataset"))
    return made_s + steps.seconds(spec["steps"]) + overhead_s + restarts(spec) * reboot_s


def shape(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what runs with similar overhead share: where PostgreSQL is, and the kinds of their steps."""
    target = (spec["target"] or {}).get("kind", "")
    return (target, *(f"{step.get('role', '')} {step['kind']}" for step in spec["steps"]))
