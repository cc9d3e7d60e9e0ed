"""The steps of a run on the time axis of its charts. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from apps.campaigns.models import Run

WARM, MEASURE = "warm", "measure"
PART = "@"  # not part of any step's name: a part of the run on another host follows


@dataclass(frozen=True)
class Step:
    """A measured step, from `begin` to `end` (None while it continues), in seconds on the axis."""

    name: str
    role: str
    begin: float
    end: float | None

    @property
    def title(self) -> str:
        """Its name, with its role if that is not "measure" and not part of the name."""
        if self.name.startswith(PART):
            return f"{self.name.removeprefix(PART)} {self.role}"
        return self.name if self.role in (MEASURE, self.name) else f"{self.name} ({self.role})"


@dataclass(frozen=True)
class Axis:
    """The steps that are shown, in order, and the time range; None: to its end."""

    steps: tuple[Step, ...]
    begin: float | None = None
    end: float | None = None

    @property
    def title(self) -> str:
        return f"seconds since {'the first step' if len(self.steps) > 1 else 'the step'} began"

    def offsets(self) -> dict[str, float]:
        """Step -> start of its own seconds, in the order of the steps."""
        return {step.name: step.begin for step in self.steps}

    def step_at(self, t: float) -> str:
        """Return the step that had started last at `t`."""
        return [step.name for step in self.steps if step.begin <= t or step is self.steps[0]][-1]

    def range_from(self, offset: float) -> tuple[float, float]:
        """Return the time range in the seconds of a step that starts at `offset`."""
        begin = float("-inf") if self.begin is None else self.begin - offset
        return begin, float("inf") if self.end is None else self.end - offset


def steps_of(run: Run) -> list[Step]:
    """Return all measured steps, in seconds since the start of the first."""
    events = run.event_log.filter(kind__in=("measuring", "measured")).order_by("seq").values_list("data", flat=True)
    spans: dict[str, tuple[float, float | None]] = {
        event["step"]: (event["began"], event.get("ended")) for event in events
    }
    first = min((began for began, _ in spans.values()), default=0.0)
    roles = {step["name"]: step.get("role") or MEASURE for step in run.spec["steps"]}
    run_steps = [
        Step(name, roles.get(name, MEASURE), round(began - first, 3), ended and round(ended - first, 3))
        for name, (began, ended) in spans.items()
    ]
    run_steps += _of_parts(run, first)
    # If a run ended before any step reported its times, it has one at most.
    return run_steps or [Step(name, role, 0.0, None) for name, role in roles.items() if name == run.step]


def began_of(run: Run, step: str) -> float | None:
    """Return the start of a step by the wall clock of its host; None if no event has the time."""
    events = run.event_log.filter(kind__in=("measuring", "measured"), data__step=step).order_by("-seq")
    return events.values_list("data__began", flat=True).first()


def part_step(name: str) -> str:
    """Return the step name for the samples of a part."""
    return f"{PART}{name}"


def _of_parts(run: Run, first: float) -> list[Step]:
    """Return the steps of other hosts at that time, by their own clocks."""
    events = run.event_logs_of_parts.filter(kind__in=("measuring", "measured")).order_by("part", "seq")
    of_parts = [(event.part, event.data) for event in events.select_related("part__host")]
    spans = {part: (data["began"], data.get("ended")) for part, data in of_parts if part}
    return [
        Step(part_step(part.name), f"on {part.host}", round(begin - first, 3), end and round(end - first, 3))
        for part, (begin, end) in spans.items()
    ]


def axis_of(steps: list[Step], step: str = "", begin: float | None = None, end: float | None = None) -> Axis:
    """Return the axis of all steps one after another, or of one step in its own seconds; samples of another host are
    a step of their own."""
    alone = [each for each in steps if each.name == step]
    if alone:
        length = None if alone[0].end is None else round(alone[0].end - alone[0].begin, 3)
        steps = [Step(step, alone[0].role, 0.0, length)]
    else:
        steps = [each for each in steps if not each.name.startswith(PART)]
    return Axis(tuple(steps), begin, end)


def window(query: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Parse ?from= and ?to= in seconds; None if absent. ValueError if they are not numbers, or not a range."""
    begin, end = (float(query[name]) if query.get(name) else None for name in ("from", "to"))
    if not all(math.isfinite(each) for each in (begin, end) if each is not None):
        raise ValueError("from and to must be numbers of seconds")
    if begin is not None and end is not None and begin >= end:
        raise ValueError(f"from={begin:g} must be less than to={end:g}")
    return begin, end


def valid_window(query: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return the same for a page, which shows the whole time if ?from= and ?to= are not valid."""
    try:
        return window(query)
    except ValueError:
        return None, None
