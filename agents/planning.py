"""Whether a spec can be carried out on a host: pure, from its facts, before anything is touched."""

from __future__ import annotations

from typing import Any

from . import reboot
from .collectors import COLLECTORS
from .errors import Unplannable
from .protocol import REBOOT
from .schema import check
from .settings import SETTINGS, Plan
from .workloads import WORKLOADS

Record = dict[str, Any]
Spec = dict[str, Any]

_DIRECTORY = {"type": "string", "pattern": r"^/[^\x00-\x1f]*$", "description": "an absolute directory"}
# A step's name becomes a directory of its evidence.
_STEP = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]{0,39}$", "description": "a-z, 0-9, _ and -"},
        "kind": {"type": "string"},
        "options": {"type": "object"},
    },
    "required": ["name", "kind", "options"],
    "additionalProperties": False,
}
SPEC = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "enum": [1]},
        "target": {
            "type": ["object", "null"],
            "properties": {
                "kind": {"type": "string", "enum": ["private"]},
                "bin_dir": _DIRECTORY,
                "data_dir": _DIRECTORY,
                "os_user": {"type": "string", "pattern": r"^[A-Za-z0-9_.-]*$"},
            },
            "required": ["kind", "bin_dir", "data_dir", "os_user"],
            "additionalProperties": False,
        },
        "settings": {"type": "object"},
        "steps": {"type": "array", "items": _STEP},
        "collect": {
            "type": "object",
            "properties": {
                "interval_s": {"type": "number", "minimum": 0.1, "maximum": 3600},
                "sources": {"type": "array", "items": {"type": "string", "enum": list(COLLECTORS)}},
            },
            "required": ["interval_s", "sources"],
            "additionalProperties": False,
        },
    },
    "required": ["version", "target", "settings", "steps", "collect"],
    "additionalProperties": False,
}


def plan_settings(facts: Record, wanted: dict[str, Any]) -> dict[str, Plan]:
    """Pure. A plan for each wanted setting, in registry order. Unplannable names what this host cannot."""
    for name in wanted:
        if name not in SETTINGS:
            raise Unplannable(f"settings.{name}", wanted[name], f"settings: {', '.join(SETTINGS)}")
    plans: dict[str, Plan] = {}
    for name, setting in SETTINGS.items():
        if name in wanted:
            check(setting.schema, wanted[name], name)
            plans[name] = setting.plan(facts, wanted[name])
            _check_level(facts, name, plans[name])
    _check_conf(plans)
    return plans


def _check_level(facts: Record, name: str, plan: Plan) -> None:
    needs_root = [write.line() for write in plan.writes] + [hold.path for hold in plan.holds]
    if needs_root and facts["level"] != "root":
        raise Unplannable(name, needs_root[0], "this setting needs level root; the agent is an ordinary user here")


def _check_conf(plans: dict[str, Plan]) -> None:
    owner: dict[str, str] = {}
    for name, plan in plans.items():
        for parameter, value in plan.conf.items():
            if parameter in owner:
                raise Unplannable(f"{name}.{parameter}", value, f"nothing; {owner[parameter]} sets it already")
            owner[parameter] = name


def plan_steps(spec: Spec) -> None:
    """Pure. Unplannable when a step's kind or options cannot be."""
    names = [step["name"] for step in spec["steps"]]
    for step in spec["steps"]:
        if names.count(step["name"]) > 1:
            raise Unplannable("steps.name", step["name"], "a name of its own for each step")
        if step["kind"] == REBOOT:
            check(reboot.SCHEMA, step["options"], REBOOT)
            continue
        if step["kind"] not in WORKLOADS:
            raise Unplannable(f"steps.{step['name']}.kind", step["kind"], ", ".join(WORKLOADS))
        workload = WORKLOADS[step["kind"]]
        check(workload.schema, step["options"], workload.kind)
        workload.check(step["options"])
        if workload.needs_postgres and not spec["target"]:
            raise Unplannable("target", None, f"a target: {workload.kind} needs PostgreSQL")
        if workload.needs_directory and not spec["target"] and not step["options"].get("directory"):
            raise Unplannable(f"{workload.kind}.directory", None, "a directory, as there is no target with a data_dir")


def check_spec(facts: Record, spec: Spec) -> None:
    """Pure. Unplannable when the host of these facts cannot carry the spec out."""
    check(SPEC, spec, "spec")
    plans = plan_settings(facts, spec["settings"])
    plan_steps(spec)
    restarts = [step["name"] for step in spec["steps"] if step["kind"] == REBOOT]
    if restarts and facts["level"] != "root":
        raise Unplannable(f"steps.{restarts[0]}", REBOOT, "level root; the agent is an ordinary user here")
    if not spec["target"]:
        for name, plan in plans.items():
            if plan.server_prefix or plan.conf or plan.initdb:
                raise Unplannable(f"settings.{name}", spec["settings"][name], "a target, for it acts on PostgreSQL")
