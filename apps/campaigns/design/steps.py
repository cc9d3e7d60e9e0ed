"""The steps of a workload: which are valid, what a factor changes in them, and what they measure. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.errors import Unplannable
from agents.run import planning
from agents.wire.protocol import COOL, MEASURE, REBOOT, ROLES
from agents.workloads import WORKLOADS, Named
from agents.workloads import Metric as Declared
from apps.tuning import rules
from common.errors import PlanError

Step = dict[str, Any]
STEP = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]{0,39}$", "description": "a-z, 0-9, _ and -"},
        "role": {"type": "string", "enum": list(ROLES)},
        "kind": {"type": "string", "enum": list(WORKLOADS)},
        "options": {"type": "object"},
    },
    "required": ["name", "kind", "options"],
    "additionalProperties": False,
}
MOST = 50
# Assumed duration of a step whose options do not define it.
UNKNOWN_S = 10.0
# CHECKPOINT is the only statement that the server adds; its assumed duration.
CHECKPOINT, CHECKPOINT_S = "CHECKPOINT", 2.0


@dataclass(frozen=True)
class Metric:
    """What a campaign compares: a figure of one measured step, its unit, and which direction is better."""

    step: str
    name: str
    unit: str
    better: str


def single(kind: str, options: Mapping[str, Any]) -> list[Step]:
    """Return the steps of a workload that only measures, once."""
    return [{"name": MEASURE, "role": usual_role(kind), "kind": kind, "options": dict(options)}]


def usual_role(kind: str) -> str:
    """Return the role of a step that does not define one. A step that measures nothing prepares for later ones."""
    return COOL if kind in WORKLOADS and not WORKLOADS[kind].measures else MEASURE


def read(raw: Any) -> list[Step]:
    """Parse steps from JSON, each with its role. PlanError names the field that is not valid."""
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST:
        hint = '[{"name": "measure", "role": "measure", "kind": "pgbench", "options": {}}]'
        raise PlanError("steps", f"a workload has 1 to {MOST} steps", hint=hint)
    for place, step in enumerate(raw):
        rules.check_schema(f"steps.{place}", step, STEP)
    steps = [{"role": usual_role(step["kind"]), **step} for step in raw]
    for place, step in enumerate(steps):
        if step["role"] == MEASURE and not WORKLOADS[step["kind"]].measures:
            hint = "give it another role, such as cool"
            raise PlanError(f"steps.{place}.role", f"{step['kind']} does not measure", hint=hint)
    names = [step["name"] for step in steps]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise PlanError("steps", f"{repeated!r} appears twice", hint="use each name once")
    if not measured(steps):
        raise PlanError("steps", "no step is measured", hint='give one step the role "measure"')
    return steps


def check(steps: Sequence[Step]) -> None:
    """Raise PlanError with the option that a tool does not accept: options.scale of a single step, else step.scale."""
    for step in steps:
        field = "options" if len(steps) == 1 else f"steps.{step['name']}"
        kind = WORKLOADS[step["kind"]]
        rules.check_schema(field, step["options"], kind.schema)
        try:
            kind.check(step["options"])
        except Unplannable as error:
            option = error.field.removeprefix(f"{kind.kind}.")
            raise PlanError(f"{field}.{option}", f"{error.value!r} is not accepted", hint=error.accepted) from error
    _check_order(steps)


def _check_order(steps: Sequence[Step]) -> None:
    try:
        planning.check_order(list(steps))
    except Unplannable as error:
        field = error.field if len(steps) > 1 else f"options.{error.field.rpartition('.')[2]}"
        raise PlanError(field, f"{error.value!r} is not accepted", hint=error.accepted) from error


def measured(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the steps that yield results."""
    return [step for step in steps if step.get("role", MEASURE) == MEASURE and step["kind"] != REBOOT]


def paths(steps: Sequence[Mapping[str, Any]]) -> list[Named]:
    """Return every path that their options name, without the run's own directories."""
    return [
        named for step in steps if step["kind"] != REBOOT for named in WORKLOADS[step["kind"]].paths(step["options"])
    ]


def patch(steps: Sequence[Step], changes: Mapping[str, Any]) -> list[Step]:
    """Return a copy with these paths set. workload.<option> applies to every step whose tool has it,
    steps.<name>.<option> to one step."""
    patched = copy.deepcopy(list(steps))
    for path, value in changes.items():
        for step, option in _steps_with_option(patched, path):
            step["options"] = rules.patch(step["options"], {option: value})
    return patched


def _steps_with_option(steps: list[Step], path: str) -> list[tuple[Step, str]]:
    root, _, rest = path.partition(".")
    if root == "steps":
        name, _, rest = rest.partition(".")
        matches = [step for step in steps if step["name"] == name]
        hint = "steps are: " + ", ".join(step["name"] for step in steps)
    else:
        matches = [step for step in steps if rest.split(".")[0] in _options(step)]
        hint = "known are: " + ", ".join(sorted({name for step in steps for name in _options(step)}))
    if not matches or not rest:
        raise PlanError(path, "this workload has no such option", hint=hint)
    return [(step, rest) for step in matches]


def _options(step: Step) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = WORKLOADS[step["kind"]].schema["properties"]
    return properties


def metric(steps: Sequence[Mapping[str, Any]], figure: str) -> Metric:
    """Return the metric that `figure` names: "tps" of a single measured step, "idx1.tps" of several. PlanError if
    there is none."""
    candidates = measured(steps)
    for step in candidates:
        name = figure.removeprefix(f"{step['name']}.")
        declared = _declared(step, name)
        if declared and (len(candidates) == 1 or name != figure):
            return Metric(step["name"], name, declared.unit, declared.better)
    raise PlanError(
        "metric", f"{figure!r} is not measured by {kinds(steps)}", hint="one of " + ", ".join(metrics(steps))
    )


def metrics(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every metric that a campaign with these steps may name. Tools may add those of their jobs and scripts."""
    candidates = measured(steps)
    prefixes = ["" if len(candidates) == 1 else f"{step['name']}." for step in candidates]
    pairs = zip(prefixes, candidates, strict=True)
    return [f"{prefix}{name}" for prefix, step in pairs for name in _names(step)]


def imported(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the steps describe a measurement made elsewhere. Such steps have their own `metrics` and cannot
    run."""
    return any("metrics" in step for step in steps)


def _names(step: Mapping[str, Any]) -> list[str]:
    return list(step["metrics"] if "metrics" in step else WORKLOADS[step["kind"]].figures(step["options"]))


def _declared(step: Mapping[str, Any], name: str) -> Declared | None:
    if "metrics" in step:
        return Declared(**step["metrics"][name]) if name in step["metrics"] else None
    kind = WORKLOADS[step["kind"]]
    return kind.metric(name) or kind.figures(step["options"]).get(name)


def loops(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the loop of each measured step that drives transactions: "closed" or "open", see Workload.loop.

    For an imported run, only its figures show that."""
    own = [] if "imported" in spec else measured(spec["steps"])
    by_step = {step["name"]: WORKLOADS[step["kind"]].loop(step["options"]) for step in own}
    return {name: loop for name, loop in by_step.items() if loop}


def kinds(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools in the order of their first use, such as "sql, pgbench"."""
    return ", ".join(dict.fromkeys(step["kind"] for step in steps))


def seconds(steps: Sequence[Mapping[str, Any]]) -> float:
    """Return the estimated seconds of their tools."""
    return sum(_seconds(step) for step in steps if step["kind"] != REBOOT)


def _seconds(step: Mapping[str, Any]) -> float:
    duration = WORKLOADS[step["kind"]].duration(step["options"])
    if duration is None:
        return CHECKPOINT_S if step["options"].get("statements") == CHECKPOINT else UNKNOWN_S
    return duration
