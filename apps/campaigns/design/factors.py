"""The factors of a campaign: their levels, and the levels on which a level depends. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.errors import PlanError

ROOTS = ("settings", "workload", "steps", "dataset", "target")
ORDERS = ("", "ascending", "descending")


@dataclass(frozen=True)
class Level:
    """One value of a factor: its label, and the paths that it sets below settings, workload, steps, dataset or target.

    It exists only in cells where each factor named in `when` has one of the listed labels."""

    label: str
    set: Mapping[str, Any]
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def possible(self, chosen: Mapping[str, Level]) -> bool:
        return all(name in chosen and chosen[name].label in labels for name, labels in self.when.items())


Cell = dict[str, Level]  # factor -> level, in the order of the factors; those without a possible level are left out


@dataclass(frozen=True)
class Factor:
    """`order`: if not "", the levels follow each other in that order within each block."""

    name: str
    levels: tuple[Level, ...]
    order: str = ""

    @property
    def follows(self) -> set[str]:
        """The factors that its levels depend on."""
        return {name for level in self.levels for name in level.when}

    def possible(self, chosen: Mapping[str, Level]) -> list[Level]:
        return [level for level in self.levels if level.possible(chosen)]

    def level(self, label: str) -> Level | None:
        return next((level for level in self.levels if level.label == label), None)


def read(raw: Any) -> tuple[Factor, ...]:
    """Parse factors from JSON. PlanError names the field that is not valid."""
    if not isinstance(raw, list) or not raw:
        raise PlanError("factors", "a campaign needs at least one factor", hint='[{"name": ..., "levels": [...]}]')
    factors = tuple(_read_factor(f"factors.{i}", each) for i, each in enumerate(raw))
    _once("factors", [factor.name for factor in factors])
    _check_conditions(factors)
    by_dependence(factors)
    return factors


def _read_factor(field: str, raw: Any) -> Factor:
    if not isinstance(raw, Mapping) or not str(raw.get("name", "")).strip():
        raise PlanError(f"{field}.name", "a factor needs a name", hint="for example: server cpus")
    levels, order = raw.get("levels"), raw.get("order", "")
    if not isinstance(levels, list) or not levels:
        raise PlanError(f"{field}.levels", "a factor needs at least one level", hint='[{"label": ..., "set": {...}}]')
    if order not in ORDERS:
        hint = "accepted: ascending, descending, or empty for the order of the campaign"
        raise PlanError(f"{field}.order", f"{order!r} is not an order", hint=hint)
    read = tuple(_read_level(f"{field}.levels.{i}", each) for i, each in enumerate(levels))
    _once(f"{field}.levels", [level.label for level in read])
    return Factor(str(raw["name"]).strip(), read, order)


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
                f"{path!r} is not a path that can be set",
                hint=f"accepted: paths that begin with {'., '.join(ROOTS[:-1])}. or {ROOTS[-1]}.",
            )
    return Level(str(raw["label"]).strip(), dict(changes), _read_when(f"{field}.when", raw.get("when", {})))


def _read_when(field: str, raw: Any) -> dict[str, tuple[str, ...]]:
    hint = '{"huge pages": ["on"]}'
    if not isinstance(raw, Mapping):
        raise PlanError(field, f"{raw!r} is not an object", hint=hint)
    for name, labels in raw.items():
        if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
            raise PlanError(field, f"{labels!r} is not a list of labels of {name}", hint=hint)
    return {name: tuple(labels) for name, labels in raw.items()}


def _once(field: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise PlanError(field, f"{name!r} appears twice", hint="use each name once")


def _check_conditions(factors: Sequence[Factor]) -> None:
    known = {factor.name: [level.label for level in factor.levels] for factor in factors}
    for i, factor in enumerate(factors):
        for j, level in enumerate(factor.levels):
            for name, labels in level.when.items():
                field = f"factors.{i}.levels.{j}.when"
                if name not in known or name == factor.name:
                    others = ", ".join(each for each in known if each != factor.name)
                    raise PlanError(field, f"{name!r} is not another factor", hint=f"accepted: {others}")
                strange = next((label for label in labels if label not in known[name]), None)
                if strange is not None:
                    hint = f"accepted: {', '.join(known[name])}"
                    raise PlanError(field, f"{name} has no level {strange!r}", hint=hint)


def by_dependence(factors: Sequence[Factor]) -> list[Factor]:
    """Return the factors, each after those that its levels depend on. PlanError if they depend on each other."""
    left, placed = list(factors), list[Factor]()
    while left:
        known = {factor.name for factor in placed}
        ready = next((factor for factor in left if factor.follows <= known), None)
        if ready is None:
            names = " and ".join(factor.name for factor in left if factor.follows)
            raise PlanError("factors", f"the conditions on {names} form a cycle", hint="remove one condition")
        placed.append(ready)
        left.remove(ready)
    return placed


def text_of(cell: Mapping[str, Level]) -> str:
    """Return the label of a run with these levels: "on, 1GB"."""
    return ", ".join(level.label for level in cell.values())


def varied_names(factors: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the factors with several levels, or all names if there are no such factors."""
    varied = [factor["name"] for factor in factors if len(factor["levels"]) > 1]
    return ", ".join(varied or [factor["name"] for factor in factors])


def readable_name(factors: Sequence[Mapping[str, Any]], cell: Mapping[str, str]) -> str:
    """Return the levels of the factors that vary: "clients=8, shared_buffers=256MB". With one such factor, without its
    name.

    `factors`: as a campaign stores them. `cell`: factor -> label."""
    varied = [factor["name"] for factor in factors if len(factor["levels"]) > 1 and factor["name"] in cell]
    names = varied or [factor["name"] for factor in factors if factor["name"] in cell]
    return cell[names[0]] if len(names) == 1 else ", ".join(f"{name}={cell[name]}" for name in names)
