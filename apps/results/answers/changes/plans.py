"""Levels at which the planner chose another plan than at the baseline, with both plans. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.campaigns.models import Artefact
from apps.results.answers.changes.observed import PlacedRun
from common.errors import FormatError
from readers.measure.sql import plan_shapes

# Runs of a level whose plans are read. Outputs can be large, and plans seldom differ between runs of a level.
READ = 5
MOST_LEVELS = 20
BETWEEN = "\n-- or --\n"


@dataclass(frozen=True)
class PlanChange:
    """`before` and `after`: plans of the baseline and of the level, one node per line; several if runs differ."""

    step: str
    level: str
    sentence: str
    before: str
    after: str


def plan_changes(
    steps: Sequence[Mapping[str, Any]], places: Sequence[PlacedRun], names: Mapping[str, str]
) -> list[PlanChange]:
    """Return the changes of plans in steps that explain a query; one query per step. `names`: level -> its name in a
    sentence, the baseline first."""
    return [change for step in steps if _explains(step) for change in _of_step(step["name"], places, names)]


def _explains(step: Mapping[str, Any]) -> bool:
    options = step["options"]
    timed = "statements" in options or options.get("figures")
    return bool(step["kind"] == "sql" and not timed and options.get("explain", True))


def _of_step(step: str, places: Sequence[PlacedRun], names: Mapping[str, str]) -> Iterator[PlanChange]:
    by_level = _plans(step, places, list(names)[:MOST_LEVELS])
    base = next(iter(names))
    before = by_level.pop(base, [])
    for level, after in by_level.items():
        if not before or set(after) == set(before):
            continue
        what = difference(_only_in(before, after), _only_in(after, before))
        sentence = f"The plan of step {step} differs with {names[level]}, against {names[base]}: {what}."
        yield PlanChange(step, level, sentence, BETWEEN.join(before), BETWEEN.join(after))


def difference(gone: str, added: str) -> str:
    """Return a phrase with the nodes that only the baseline or only the level has."""
    if gone and added:
        return f"{gone} becomes {added}"
    if gone or added:
        return f"without {gone}" if gone else f"{added} is added"
    return "the same nodes in a different order"


def _only_in(plans: Sequence[str], others: Sequence[str]) -> str:
    """Return the nodes of these plans that the others lack."""
    known = {line.strip() for plan in others for line in plan.splitlines()}
    own = dict.fromkeys(line.strip() for plan in plans for line in plan.splitlines())
    return ", ".join(line for line in own if line not in known)


def _plans(step: str, places: Sequence[PlacedRun], levels: Sequence[str]) -> dict[str, list[str]]:
    """Return the distinct plans of the first runs of each level, without levels whose plans cannot be parsed."""
    chosen: dict[UUID, str] = {}
    for level in levels:
        chosen |= {place.run: level for place in [each for each in places if each.level == level][:READ]}
    files = Artefact.objects.filter(run__in=chosen, path=f"out/{step}/stdout").exclude(content=None)
    by_level: dict[str, list[str]] = {}
    for run, content in files.order_by("run__position").values_list("run_id", "content"):
        try:
            shapes = plan_shapes(bytes(content or b""))
        except FormatError:
            continue  # the output is incomplete; the page of the run shows that
        own = by_level.setdefault(chosen[run], [])
        own += [shape for shape in shapes if shape not in own]
    return {level: by_level[level] for level in levels if by_level.get(level)}
