"""SELECT only: whether the planner chose another plan at one level than at the baseline, with both plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.campaigns.models import Artefact
from apps.results.answers.changes.observations import Place
from common.errors import FormatError
from readers.measure.sql import plan_shapes

# Runs of a level whose plans are read: an output may be large, and plans seldom differ between runs of a level.
READ = 5
MOST_LEVELS = 20
BETWEEN = "\n-- or --\n"


@dataclass(frozen=True)
class PlanChange:
    """`before` and `after`: the plans of the baseline and of the level, a node a line; several where runs differ."""

    step: str
    level: str
    sentence: str
    before: str
    after: str


def plan_changes(
    steps: Sequence[Mapping[str, Any]], places: Sequence[Place], names: Mapping[str, str]
) -> list[PlanChange]:
    """Of steps that explain a query; `names`: level -> what people call it, the baseline first. A query a step."""
    return [change for step in steps if _explains(step) for change in _of_step(step["name"], places, names)]


def _explains(step: Mapping[str, Any]) -> bool:
    options = step["options"]
    timed = "statements" in options or options.get("figures")
    return bool(step["kind"] == "sql" and not timed and options.get("explain", True))


def _of_step(step: str, places: Sequence[Place], names: Mapping[str, str]) -> Iterator[PlanChange]:
    found = _plans(step, places, list(names)[:MOST_LEVELS])
    base = next(iter(names))
    for level, plans in found.items():
        if level == base or base not in found or set(plans) == set(found[base]):
            continue
        gone, come = _lines(found[base], plans), _lines(plans, found[base])
        what = f"{gone or 'the order of nodes'} becomes {come or 'another'}"
        sentence = f"The plan of step {step} differs with {names[level]}, against {names[base]}: {what}."
        yield PlanChange(step, level, sentence, BETWEEN.join(found[base]), BETWEEN.join(plans))


def _lines(of: Sequence[str], other: Sequence[str]) -> str:
    """Nodes of these plans that the other ones do not have."""
    there = {line.strip() for plan in other for line in plan.splitlines()}
    own = dict.fromkeys(line.strip() for plan in of for line in plan.splitlines())
    return ", ".join(line for line in own if line not in there)


def _plans(step: str, places: Sequence[Place], levels: Sequence[str]) -> dict[str, list[str]]:
    """Level -> the different plans of its first runs; without levels of which none can be read."""
    chosen: dict[UUID, str] = {}
    for level in levels:
        chosen |= {place.run: level for place in [each for each in places if each.level == level][:READ]}
    files = Artefact.objects.filter(run__in=chosen, path=f"out/{step}/stdout").exclude(content=None)
    found: dict[str, list[str]] = {}
    for run, content in files.order_by("run__position").values_list("run_id", "content"):
        try:
            shapes = plan_shapes(bytes(content or b""))
        except FormatError:
            continue  # an output that is cut: the run's page says so
        own = found.setdefault(chosen[run], [])
        own += [shape for shape in shapes if shape not in own]
    return {level: found[level] for level in levels if found.get(level)}
