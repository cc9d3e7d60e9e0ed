"""Whether a spec can be carried out on a host: pure, from its facts, before anything is touched."""

from __future__ import annotations

from typing import Any

from ..collectors import COLLECTORS
from ..datasets import DATASETS, ENSURE, RESETS, STEP
from ..errors import Unplannable
from ..host import paths, policy
from ..measure import steady
from ..postgres import roles
from ..postgres.remote_server.server import CONNECTION
from ..recovery import reboot
from ..settings import SETTINGS, Plan, Setting
from ..wire.protocol import REBOOT, ROLES, WARM
from ..wire.schema import check
from ..workloads import WORKLOADS
from . import remote_server

Record = dict[str, Any]
Spec = dict[str, Any]

_DIRECTORY = {"type": "string", "pattern": r"^/[^\x00-\x1f]*$", "description": "an absolute directory"}
# A step's name becomes a directory of its evidence.
_STEP = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]{0,39}$", "description": "a-z, 0-9, _ and -"},
        "role": {"type": "string", "enum": list(ROLES)},
        "kind": {"type": "string"},
        "options": {"type": "object"},
        "until": steady.SCHEMA,
    },
    "required": ["name", "kind", "options"],
    "additionalProperties": False,
}
_ACCOUNT = {"type": "string", "pattern": r"^[A-Za-z0-9_.-]*$", "description": "an account's name"}
_FILE = {"type": "string", "pattern": r"^/[^\x00-\x1f]*$", "description": "an absolute path"}
_PLACE = {"kind": {}, "bin_dir": _DIRECTORY, "data_dir": _DIRECTORY, "os_user": _ACCOUNT}
TARGETS: dict[str, Any] = {
    "private": {
        "properties": _PLACE,
        "required": list(_PLACE),
        "additionalProperties": False,
    },
    "existing": {
        "properties": {
            "kind": {},
            "bin_dir": _DIRECTORY,
            "data_dir": _DIRECTORY,
            "config_file": _FILE,
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "os_user": {"type": "string", "pattern": r"^[A-Za-z0-9_.-]+$", "description": "the cluster's owner"},
            "unit": {
                "type": "string",
                "pattern": r"^([A-Za-z0-9_][A-Za-z0-9:_.\\@-]*\.service)?$",
                "description": "a systemd service; empty for a server that pg_ctl started",
            },
            "include": {"type": "string", "pattern": r"^(/.*/(zz_)?proving_ground\.conf)?$", "description": "our file"},
            "consent": {
                "type": "object",
                "properties": {
                    "measure": {"type": "boolean"},
                    "restart": {"type": "boolean"},
                    "disturb_clients": {"type": "boolean"},
                },
                "required": ["restart", "disturb_clients"],
                "additionalProperties": False,
            },
        },
        "required": [
            *("kind", "bin_dir", "data_dir", "config_file", "port", "os_user", "unit", "include", "consent"),
        ],
        "additionalProperties": False,
    },
    "remote": {
        "properties": {
            **_PLACE,
            "address": roles.ADDRESS,
            "port": roles.PORT,
        },
        "required": [*_PLACE, "address", "port"],
        "additionalProperties": False,
    },
    "remote_server": {
        "properties": {
            **_PLACE,
            "name": {"type": "string", "maxLength": 63},
            "wait_s": {"type": "integer", "minimum": 0, "maximum": 7 * 86400},
            "use_database": {"type": "boolean"},
            **CONNECTION,
        },
        "required": [*_PLACE, "name", *CONNECTION],
        "additionalProperties": False,
    },
    "standby": {
        "properties": {
            **_PLACE,
            "address": roles.ADDRESS,
            "port": roles.PORT,
            "name": roles.NAME,
        },
        "required": [*_PLACE, "address", "port", "name"],
        "additionalProperties": False,
    },
}
SPEC = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "enum": [1]},
        "target": {
            "type": ["object", "null"],
            "properties": {"kind": {"type": "string", "enum": list(TARGETS)}},
            "required": ["kind"],
        },
        "os_user": _ACCOUNT,
        "settings": {"type": "object"},
        "dataset": {
            "type": ["object", "null"],
            "properties": {
                "name": {"type": "string", "maxLength": 80},
                "kind": {"type": "string", "enum": list(DATASETS)},
                "options": {"type": "object"},
                "reset": {"type": "string", "enum": list(RESETS)},
                "ensure": {"type": "string", "enum": list(ENSURE)},
                "fingerprint": {"type": "string", "pattern": r"^[0-9a-f]{64}$"},
            },
            "required": ["kind", "options"],
            "additionalProperties": False,
        },
        "serve": roles.SERVE,
        "steps": {"type": "array", "items": _STEP},
        "allowed_paths": paths.ALLOWED,
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


def plan_settings(facts: Record, requested: dict[str, Any]) -> dict[str, Plan]:
    """Pure. A plan for each wanted setting, in registry order. Unplannable names what this host cannot."""
    for name in requested:
        if name not in SETTINGS:
            raise Unplannable(f"settings.{name}", requested[name], f"settings: {', '.join(SETTINGS)}")
    plans: dict[str, Plan] = {}
    for name, setting in SETTINGS.items():
        if name in requested:
            check(setting.schema, requested[name], name)
            plans[name] = _plan(setting, facts, requested[name])
            _check_level(facts, name, plans[name])
            facts = setting.facts_after(facts, requested[name])
    _check_conf(plans)
    _check_unit(plans)
    return plans


def check_together(requested: dict[str, Any], plans: dict[str, Plan]) -> None:
    """Pure. Unplannable if settings that are each possible on the host cannot be in effect in the same run. Pass all
    settings of the run: PostgreSQL's parameters count."""
    for name in plans:
        SETTINGS[name].check_together(requested[name], plans)


def facts_after(facts: Record, requested: dict[str, Any]) -> Record:
    """Pure. The facts while all of these settings are in effect."""
    for name, setting in SETTINGS.items():
        facts = setting.facts_after(facts, requested[name]) if name in requested else facts
    return facts


def _plan(setting: Setting, facts: Record, requested: Any) -> Plan:
    try:
        return setting.plan(facts, requested)
    except KeyError as error:
        hint = f"check the host: its facts are older than this setting and lack {error}"
        raise Unplannable(setting.name, requested, "a host with newer facts", hint) from error


def _check_level(facts: Record, name: str, plan: Plan) -> None:
    needs_root = [write.line() for write in plan.writes] + [hold.path for hold in plan.holds]
    needs_root += [f"{file} = {text}" for file, text in plan.limits] + plan.boot.get("parameters", [])
    needs_root += [plan.boot["release"]] if "release" in plan.boot else []
    if needs_root and facts["level"] != "root":
        raise Unplannable(
            name, needs_root[0], "this setting requires level root; the agent runs as an ordinary user here"
        )


def _check_conf(plans: dict[str, Plan]) -> None:
    owner: dict[str, str] = {}
    for name, plan in plans.items():
        for parameter, value in plan.conf.items():
            if parameter in owner:
                raise Unplannable(f"{name}.{parameter}", value, f"nothing; {owner[parameter]} already sets it")
            owner[parameter] = name


def _check_unit(plans: dict[str, Plan]) -> None:
    """Refuse two CPU lists for systemd: of taskset and numactl, each would replace the CPUs of the other one."""
    owner: dict[str, str] = {}
    for name, plan in plans.items():
        for option, value in plan.unit.items():
            if option in owner:
                accepted = f"either {name} or {owner[option]}: both choose PostgreSQL's cpus"
                raise Unplannable(name, f"{option}={value}", accepted)
            owner[option] = name


def plan_steps(spec: Spec) -> None:
    """Pure. Unplannable when a step's kind or options cannot be."""
    names = [step["name"] for step in spec["steps"]]
    for step in spec["steps"]:
        if names.count(step["name"]) > 1 or step["name"] == STEP:
            raise Unplannable("steps.name", step["name"], f"a distinct name for each step, other than {STEP}")
        if step["kind"] == REBOOT:
            check(reboot.SCHEMA, step["options"], REBOOT)
            continue
        if step["kind"] not in WORKLOADS:
            raise Unplannable(f"steps.{step['name']}.kind", step["kind"], ", ".join(WORKLOADS))
        workload = WORKLOADS[step["kind"]]
        check(workload.schema, step["options"], workload.kind)
        workload.check(step["options"])
        if "until" in step and not (workload.ends_when_steady and step.get("role") == WARM):
            accepted = "a step with role warm and a tool that reports rates while it runs"
            raise Unplannable(f"steps.{step['name']}.until", step["until"], accepted)
        for named in workload.paths(step["options"]):
            field = f"{workload.kind}.{named.option}"
            paths.check(field, named.path, named.kind, spec.get("allowed_paths", []))
        if workload.needs_postgres and not spec["target"]:
            raise Unplannable("target", None, f"a target: {workload.kind} needs PostgreSQL")
        ours = (spec["target"] or {}).get("kind") in ("private", "remote", "remote_server")
        if workload.needs_directory and not ours and not step["options"].get("directory"):
            raise Unplannable(f"{workload.kind}.directory", None, "a directory, because there is no private cluster")
    check_order(spec["steps"])


def check_order(steps: list[Record]) -> None:
    """Pure. Unplannable when a step needs the result of one that does not come before it, or is of another tool."""
    earlier: dict[str, str] = {}
    for step in steps:
        needed = WORKLOADS[step["kind"]].follows(step["options"]) if step["kind"] in WORKLOADS else None
        if needed is not None and earlier.get(needed) != step["kind"]:
            same = [name for name, kind in earlier.items() if kind == step["kind"]]
            accepted = f"an earlier {step['kind']} step than {step['name']}: {', '.join(same) or 'there is none'}"
            raise Unplannable(f"steps.{step['name']}.rate_of", needed, accepted)
        earlier[step["name"]] = step["kind"]


def check_versions(facts: Record, spec: Spec) -> None:
    """Pure. Unplannable for an option that the target's version lacks, if the facts have the version."""
    bin_dir = (spec["target"] or {}).get("bin_dir")
    majors = [each["major"] for each in facts.get("postgresql", []) if each["bin_dir"] == bin_dir]
    for step in spec["steps"]:
        for major in majors if step["kind"] in WORKLOADS else []:
            WORKLOADS[step["kind"]].check_version(step["options"], major)


def plan_dataset(spec: Spec) -> None:
    """Pure. Unplannable if a data set cannot be created with these options, or has no target."""
    dataset = spec.get("dataset")
    if dataset is None:
        return
    data = DATASETS[dataset["kind"]]
    check(data.schema, dataset["options"], STEP)
    data.check(dataset["options"])
    if not spec["target"]:
        raise Unplannable("target", None, "a target: a data set needs PostgreSQL")
    if "fingerprint" in dataset and dataset.get("ensure") != "absent":
        raise Unplannable("dataset.fingerprint", dataset["fingerprint"], "none, unless the data set is removed")
    if dataset.get("ensure") == "absent" and (spec["steps"] or spec["target"]["kind"] != "private"):
        raise Unplannable("dataset.ensure", "absent", "present, for a run with steps or in an existing cluster")


def check_data(spec: Spec) -> None:
    """Pure. Unplannable when a step needs another kind of data set than the run has. A client is not checked: the data
    set is on the server."""
    if (spec["target"] or {}).get("kind") == "remote":
        return
    kind = (spec.get("dataset") or {}).get("kind")
    for step in spec["steps"]:
        needed = WORKLOADS[step["kind"]].dataset if step["kind"] in WORKLOADS else ""
        if needed and kind != needed:
            raise Unplannable("dataset.kind", kind, f"{needed}: step {step['name']} uses its tables")


def plan_target(facts: Record, spec: Spec, plans: dict[str, Plan]) -> None:
    """Pure. Raise Unplannable if settings need something that the target does not have."""
    target = spec["target"]
    if target is not None:
        check(TARGETS[target["kind"]], target, "target")
    for name, plan in plans.items():
        requested = spec["settings"][name]
        if plan.boot and (target or {"kind": "private"})["kind"] != "private":
            accepted = "a private cluster: a boot would stop an existing server, and the run does not start it again"
            raise Unplannable(f"settings.{name}", requested, accepted)
        if target is None and (plan.server_prefix or plan.conf or plan.initdb or plan.sql or plan.limits):
            raise Unplannable(f"settings.{name}", requested, "a target, because it applies to PostgreSQL")
        if target is not None and target["kind"] == "existing":
            _check_existing(facts, target, name, requested, plan)
    if target is not None and target["kind"] == "remote_server":
        remote_server.check(spec, plans)


def _check_existing(facts: Record, target: Record, name: str, requested: Any, plan: Plan) -> None:
    if plan.initdb:
        raise Unplannable(f"settings.{name}", requested, "a private cluster: it applies only to a new cluster")
    if plan.limits:
        accepted = "a private cluster: the control group of an existing cluster belongs to its administrator"
        raise Unplannable(f"settings.{name}", requested, accepted)
    if plan.conf and not target["include"]:
        line = "include_if_exists 'proving_ground.conf'"
        raise Unplannable(
            "target.include",
            "",
            f"a file that {target['config_file']} includes",
            f"add the line {line} at its end, reload, and check the host again",
        )
    if plan.server_prefix and target["unit"] and not plan.unit:
        raise Unplannable(
            f"settings.{name}",
            requested,
            f"an action that systemd supports for {target['unit']}; it does not support this one",
        )
    if plan.server_prefix and not target["consent"]["restart"]:
        raise _no_consent(name)
    if plan.server_prefix and target["unit"] and facts["level"] != "root":
        raise Unplannable(name, requested, "level root, to restart a service; the agent runs as an ordinary user here")


def _no_consent(reason: str) -> Unplannable:
    hint = "an admin can allow it on the host's page"
    return Unplannable("target.consent.restart", False, f"permission to restart PostgreSQL, because {reason}", hint)


def check_spec(facts: Record, spec: Spec) -> None:
    """Pure. Unplannable when the host of these facts cannot carry the spec out."""
    check(SPEC, spec, "spec")
    policy.check(facts.get("policy", {}), spec)
    plans = plan_settings(facts, spec["settings"])
    check_together(spec["settings"], plans)
    plan_target(facts, spec, plans)
    roles.check(spec, plans)
    plan_steps(spec)
    check_versions(facts, spec)
    plan_dataset(spec)
    check_data(spec)
    restarts = [step["name"] for step in spec["steps"] if step["kind"] == REBOOT]
    if restarts and any(plan.boot for plan in plans.values()):
        accepted = "no other restart: with kernel parameters, each run boots the host by itself"
        raise Unplannable(f"steps.{restarts[0]}", REBOOT, accepted)
    if restarts and facts["level"] != "root":
        raise Unplannable(f"steps.{restarts[0]}", REBOOT, "level root; the agent runs as an ordinary user here")
    if restarts and not (spec["target"] or {}).get("consent", {"restart": True})["restart"]:
        raise _no_consent(f"step {restarts[0]}, which restarts the host")
    _check_tracer(spec, plans)


def _check_tracer(spec: Spec, plans: dict[str, Plan]) -> None:
    steps = [step for step in spec["steps"] if step["kind"] in WORKLOADS]
    traces = any(WORKLOADS[step["kind"]].traces(step["options"]) for step in steps)
    for name, plan in plans.items():
        if plan.tracer_prefix and not traces:
            value = spec["settings"][name].get("tracer")
            raise Unplannable(f"{name}.tracer", value, "nothing; no step of this run starts a tracer")
