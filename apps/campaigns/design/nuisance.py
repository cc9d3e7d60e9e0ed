"""Run conditions that are equal in every run, so that only the factors differ: steps and settings added to each
spec. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.wire.protocol import MEASURE, REBOOT
from agents.workloads import WORKLOADS
from apps.campaigns.design.steps import CHECKPOINT, Step
from apps.tuning import rules
from common.errors import PlanError

DAY_S = 86_400
WINDOW_S, WITHIN, LIMIT_S = 5, 0.02, 600
COOL_DOWN, WARM_UP = "cool-down", "warm-up"
_SECONDS = {"type": "integer", "minimum": 1, "maximum": DAY_S, "description": "1 to 86400 seconds"}
_BY_TIME = {
    "type": "object",
    "properties": {"time_s": _SECONDS},
    "required": ["time_s"],
    "additionalProperties": False,
}
_STEADY = {
    "type": "object",
    "properties": {
        "until": {"type": "string", "enum": ["steady"]},
        "limit_s": _SECONDS,
        "window_s": {"type": "integer", "minimum": 1, "maximum": 60, "description": "1 to 60 seconds"},
        "within": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 0.5,
            "description": "a fraction, such as 0.02",
        },
    },
    "required": ["until", "limit_s"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cool_down_s": {"type": "number", "minimum": 0, "maximum": DAY_S, "description": "0 to 86400 seconds"},
        "checkpoint": {"type": "boolean"},
        "drop_caches": {"type": "string", "enum": ["", "run", "step"]},
        "warm_up": {"type": "object"},
    },
    "additionalProperties": False,
}


def check(raw: Any) -> None:
    """Raise PlanError with the field that is not valid."""
    rules.check_schema("nuisance", raw, SCHEMA)
    if raw.get("warm_up"):
        rules.check_schema("nuisance.warm_up", raw["warm_up"], _STEADY if "until" in raw["warm_up"] else _BY_TIME)


def applied(spec: Mapping[str, Any], nuisance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with these conditions. PlanError if a step or the target does not support one."""
    steps: list[Step] = list(spec["steps"])
    if not steps:
        return dict(spec)
    if nuisance.get("checkpoint") and not spec["target"]:
        hint = "remove it: no step of this workload uses PostgreSQL"
        raise PlanError("nuisance.checkpoint", "a checkpoint needs PostgreSQL", hint=hint)
    steps = _warmed(steps, nuisance.get("warm_up") or {})
    if nuisance.get("checkpoint"):
        steps = _checkpointed(steps)
    if nuisance.get("cool_down_s"):
        wait = {"name": _free(COOL_DOWN, steps), "role": "cool", "kind": "wait"}
        steps = [{**wait, "options": {"seconds": nuisance["cool_down_s"]}}, *steps]
    return {**spec, "steps": steps, "settings": _dropped(spec["settings"], nuisance.get("drop_caches", ""))}


def _free(name: str, steps: Sequence[Step]) -> str:
    """Return the name, with a number if a step has it already."""
    taken = {step["name"] for step in steps}
    return next(each for each in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))) if each not in taken)


def _measured(step: Step) -> bool:
    return bool(step.get("role", MEASURE) == MEASURE) and step["kind"] != REBOOT


def _warmed(steps: list[Step], warm_up: Mapping[str, Any]) -> list[Step]:
    """Add a warm-up before the first measured step, with the same load."""
    if not warm_up:
        return steps
    place, load = next((place, step) for place, step in enumerate(steps) if _measured(step))
    kind = WORKLOADS[load["kind"]]
    options = kind.for_time(load["options"], warm_up.get("time_s") or warm_up["limit_s"])
    if options is None or ("until" in warm_up and not kind.ends_when_steady):
        able = [name for name, each in WORKLOADS.items() if each.ends_when_steady]
        hint = f"use a step of {' or '.join(able)}, or add a warm step to the workload"
        raise PlanError(
            "nuisance.warm_up", f"step {load['name']} of {kind.kind} cannot be used as a warm-up", hint=hint
        )
    warm: Step = {"name": _free(WARM_UP, steps), "role": "warm", "kind": load["kind"], "options": options}
    if "until" in warm_up:
        warm["until"] = {"window_s": warm_up.get("window_s", WINDOW_S), "within": warm_up.get("within", WITHIN)}
    return [*steps[:place], warm, *steps[place:]]


def _checkpointed(steps: Sequence[Step]) -> list[Step]:
    with_checkpoints: list[Step] = []
    for step in steps:
        if _measured(step):
            name = _free("checkpoint", [*steps, *with_checkpoints])
            with_checkpoints.append(
                {"name": name, "role": "prepare", "kind": "sql", "options": {"statements": CHECKPOINT}}
            )
        with_checkpoints.append(step)
    return with_checkpoints


def _dropped(settings: Mapping[str, Any], when: str) -> dict[str, Any]:
    """Return the setting `cache`, which drops the page cache and then loads what was configured."""
    if not when:
        return dict(settings)
    cache = dict(settings.get("cache", {"state": "cold"}))
    cache["state"] = "reloaded" if cache["state"] in ("warm", "reloaded") else "cold"
    return {**settings, "cache": cache | ({"before": "step"} if when == "step" else {})}
