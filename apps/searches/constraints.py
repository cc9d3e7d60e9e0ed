"""Limits that a candidate has to keep to: one metric per line, at most or at least a value. Pure.

latency_p99 <= 20 ms
failed <= 0
tps >= 500
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.campaigns.design import steps
from common.errors import PlanError
from common.wording import unsigned
from stats.comparison import limits
from stats.comparison.limits import AgainstLimit

MOST, LONGEST = 10, 300
HINT = "METRIC <= VALUE or METRIC >= VALUE, such as latency_p99 <= 20 ms"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
LINE = re.compile(rf"^(?P<metric>.+?)\s*(?P<sign><=|>=)\s*(?P<limit>{NUMBER})\s*(?P<unit>.*)$")


@dataclass(frozen=True)
class Constraint:
    """`metric` as the campaign names it: the figure `name` of `step`, in `unit`."""

    metric: str
    step: str
    name: str
    unit: str
    at_most: bool
    limit: float

    @property
    def end(self) -> tuple[str, str, bool]:
        """What it limits; a campaign can have several names for a metric."""
        return self.step, self.name, self.at_most

    @property
    def line(self) -> str:
        """ "latency_p99 <= 20 ms"."""
        return f"{self.metric} {'<=' if self.at_most else '>='} {self.text(self.limit)}"

    def text(self, value: float) -> str:
        """ "25.3 ms", with enough digits to differ from the limit."""
        number = unsigned(value)
        if number == unsigned(self.limit):
            number = f"{value:.15g}" if value == self.limit else f"{value:.6g}"
        return f"{number} {self.unit}".strip()

    def is_broken(self, value: float) -> bool:
        return limits.exceeds(value, self.limit, self.at_most)

    def excess(self, value: float) -> float:
        """How far a value is beyond the limit; above 0 if it is. A logarithm, so that none outweighs the others."""
        sign, beyond = (1 if self.at_most else -1), value - self.limit
        if value > 0 and self.limit > 0:
            return sign * math.log(value / self.limit)
        return sign * math.copysign(math.log1p(abs(beyond)), beyond)


@dataclass(frozen=True)
class MeasuredConstraint:
    """The mean of a metric in the runs of a candidate. `value` is None if a run did not measure it."""

    constraint: Constraint
    value: float | None

    @property
    def is_met(self) -> bool:
        return self.value is not None and not self.constraint.is_broken(self.value)

    @property
    def text(self) -> str:
        """ "25.3 ms"; "" without a value."""
        return "" if self.value is None else self.constraint.text(self.value)

    @property
    def reason(self) -> str:
        """ "latency_p99 is 25.3 ms; the limit is at most 20 ms"."""
        each = self.constraint
        limit = f"the limit is at {'most' if each.at_most else 'least'} {each.text(each.limit)}"
        if self.value is None:
            return f"{each.metric} was not measured; {limit}"
        return f"{each.metric} is {each.text(self.value)}; {limit}"

    @property
    def as_dict(self) -> dict[str, Any]:
        return {"constraint": self.constraint.line, "value": self.value, "is_met": self.is_met}


@dataclass(frozen=True)
class ConfirmedConstraint:
    """A constraint in the runs of the confirmation. `result` is None if a run did not measure its metric."""

    constraint: Constraint
    result: AgainstLimit | None

    @property
    def verdict(self) -> str:
        """met, broken or uncertain."""
        return self.result.verdict if self.result else limits.BROKEN

    @property
    def sentence(self) -> str:
        """ "breaks latency_p99 <= 20 ms with 25.3 ms (95 % CI 24 to 26.6)"."""
        verb = {limits.MET: "meets", limits.BROKEN: "breaks", limits.UNCERTAIN: "may break"}[self.verdict]
        if self.result is None:
            return f"does not measure the metric of {self.constraint.line}"
        return f"{verb} {self.constraint.line} with {self.constraint.text(self.result.mean)}{self._interval}"

    @property
    def _interval(self) -> str:
        if self.result is None or self.result.low is None or self.result.high is None:
            return " (too few runs for an interval)"
        if self.result.low == self.result.high:
            return " (the same in every run)"
        return f" (95 % CI {unsigned(self.result.low)} to {unsigned(self.result.high)})"

    @property
    def as_dict(self) -> dict[str, Any]:
        figures = (self.result.mean, self.result.low, self.result.high) if self.result else (None, None, None)
        value, low, high = figures
        return {"constraint": self.constraint.line, "verdict": self.verdict, "value": value, "low": low, "high": high}


def confirm(constraint: Constraint, figures: Sequence[float | None]) -> ConfirmedConstraint:
    """`figures`: of each run of one candidate on one host, None for a run that did not measure it."""
    values = [figure for figure in figures if figure is not None]
    if not values or len(values) < len(figures):
        return ConfirmedConstraint(constraint, None)
    return ConfirmedConstraint(constraint, limits.against_limit(values, constraint.limit, constraint.at_most))


def worst(results: Iterable[ConfirmedConstraint]) -> ConfirmedConstraint:
    """Of the same constraint on several hosts: broken, else uncertain, else met."""
    order = [limits.BROKEN, limits.UNCERTAIN, limits.MET]
    return min(results, key=lambda each: order.index(each.verdict))


def measured_constraints(
    constraints: Iterable[Constraint], figures: Mapping[str, Sequence[float | None]]
) -> list[MeasuredConstraint]:
    """`figures`: metric -> its figure in each run of a candidate, None for a run that did not measure it."""
    return [MeasuredConstraint(constraint, _mean(figures.get(constraint.metric, []))) for constraint in constraints]


def _mean(figures: Sequence[float | None]) -> float | None:
    values = [figure for figure in figures if figure is not None]
    return limits.mean(values) if values and len(values) == len(figures) else None


def read(lines: Iterable[str], of: Sequence[Mapping[str, Any]]) -> list[Constraint]:
    """The constraints of these lines. `of`: the steps of the campaign that measure their metrics. PlanError names the
    wrong line and what is accepted."""
    wanted = [line.strip() for line in lines if line.strip()]
    if len(wanted) > MOST:
        raise PlanError("constraints", f"{len(wanted)} constraints are too many", hint=f"at most {MOST}")
    constraints: list[Constraint] = []
    for number, line in enumerate(wanted, 1):
        each = _read(f"constraints.{number}", line, of)
        if any(each.end == other.end for other in constraints):
            kind = "upper" if each.at_most else "lower"
            raise PlanError(f"constraints.{number}", f"{each.metric} has two {kind} limits", hint="keep one of them")
        constraints.append(each)
    return constraints


def _read(field: str, line: str, of: Sequence[Mapping[str, Any]]) -> Constraint:
    match = LINE.match(line) if len(line) <= LONGEST else None  # the time of a mismatch grows with the square
    limit = float(match["limit"]) if match else math.inf
    if match is None or math.isinf(limit):
        raise PlanError(field, f"{line[:90]!r} is not a constraint", hint=HINT)
    try:
        metric = steps.metric(of, match["metric"])
    except PlanError as error:
        raise PlanError(field, error.message, hint=error.hint) from error
    if match["unit"] not in ("", metric.unit):
        hint = f"{match['metric']} is in {metric.unit}" if metric.unit else f"{match['metric']} has no unit"
        raise PlanError(field, f"{match['unit']!r} is not its unit", hint=hint)
    return Constraint(match["metric"], metric.step, metric.name, metric.unit, match["sign"] == "<=", limit)
