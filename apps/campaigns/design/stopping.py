"""The rule by which a campaign stops early, as chosen by the user. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import PlanError

UNTIL = {
    "width": "the CI of a comparison is narrower than requested",
    "verdict": "the verdict of a comparison is certain",
}
# How alpha is spent over the interim analyses; the default of each rule. See docs/background/statistics.md.
SPENDING = ("obrien_fleming", "pocock")
USUAL = {"width": "pocock", "verdict": "obrien_fleming"}
LEAST = 5
FEWEST = 3
KEYS = ("until", "between", "width", "least", "spending")


@dataclass(frozen=True)
class Rule:
    """An interim analysis follows each complete block from `least` on. `between`: labels as in Run.label. `width`: a
    share."""

    until: str
    between: tuple[str, str]
    width: float
    least: int
    spending: str

    @property
    def sentence(self) -> str:
        first, second = self.between
        if self.until == "width":
            return f"until the 95 % CI of {second} against {first} is narrower than {100 * self.width:g} %"
        return f"until the verdict on {second} against {first} is certain"


def read(stop: Any, factors: Sequence[Mapping[str, Any]], repetitions: int) -> Rule | None:
    """Parse a stopping rule; None for {}, which means all repetitions. PlanError names the field that is not valid."""
    if not stop:
        return None
    if not isinstance(stop, Mapping) or stop.get("until") not in UNTIL:
        hint = "{} for all repetitions, or one of " + ", ".join(UNTIL)
        rule = stop.get("until") if isinstance(stop, Mapping) else stop
        raise PlanError("stop.until", f"{rule!r} is not a rule", hint=hint)
    for name in stop:
        if name not in KEYS:
            raise PlanError(f"stop.{name}", f"{name!r} is not a key of a rule", hint="one of " + ", ".join(KEYS))
    until = stop["until"]
    spending = stop.get("spending", USUAL[until])
    if spending not in SPENDING:
        raise PlanError(
            "stop.spending", f"{spending!r} is not a spending function", hint="one of " + ", ".join(SPENDING)
        )
    return Rule(until, _between(stop.get("between"), factors), _width(stop), _least(stop, repetitions), spending)


def _width(stop: Mapping[str, Any]) -> float:
    width = stop.get("width", 0.0)
    if stop["until"] == "verdict":
        if "width" in stop:
            raise PlanError("stop.width", "width is only for the rule width", hint="remove it, or stop until width")
    elif isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < 2:
        raise PlanError("stop.width", f"{width!r} is not a width", hint="a share between 0 and 2: 0.04 is 4 %")
    return float(width)


def _least(stop: Mapping[str, Any], repetitions: int) -> int:
    least = stop.get("least", min(LEAST, repetitions))
    if isinstance(least, bool) or not isinstance(least, int) or not FEWEST <= least <= repetitions:
        hint = f"accepted: from {FEWEST} to the number of repetitions, {repetitions}"
        raise PlanError("stop.least", f"a first interim analysis after {least!r} blocks is not possible", hint=hint)
    return least


def _between(cells: Any, factors: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if not isinstance(cells, list) or len(cells) != 2 or cells[0] == cells[1]:
        raise PlanError(
            "stop.between", f"{cells!r} are not two combinations", hint="[{factor: level}, {factor: level}]"
        )
    first, second = (_label(f"stop.between.{place}", cell, factors) for place, cell in enumerate(cells))
    return first, second


def _label(field: str, cell: Any, factors: Sequence[Mapping[str, Any]]) -> str:
    known = {factor["name"]: [level["label"] for level in factor["levels"]] for factor in factors}
    if not isinstance(cell, Mapping) or set(cell) != set(known):
        raise PlanError(field, f"{cell!r} is not a combination", hint="give a level of each of " + ", ".join(known))
    for name, labels in known.items():
        if cell[name] not in labels:
            raise PlanError(field, f"{name} has no level {cell[name]!r}", hint="one of " + ", ".join(labels))
    return label(cell, factors)


def label(cell: Mapping[str, str], factors: Sequence[Mapping[str, Any]]) -> str:
    """Return the levels as a label, in the order of the factors."""
    return ", ".join(cell[factor["name"]] for factor in factors if factor["name"] in cell)


def check(rule: Rule | None, cells: Iterable[Mapping[str, str]], factors: Sequence[Mapping[str, Any]]) -> None:
    """Raise PlanError if the design never runs what the rule compares."""
    if rule is None:
        return
    run = {label(cell, factors) for cell in cells}
    for place, combination in enumerate(rule.between):
        if combination not in run:
            hint = "choose two combinations of the design"
            raise PlanError(f"stop.between.{place}", f"{combination} is not in the design", hint=hint)
