"""Dry runs: what settings would change on a host, item by item, or why the host refuses them. Pure."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.errors import Unplannable
from agents.host import cmdline
from agents.run import planning
from agents.settings import SETTINGS, Plan, Setting
from agents.settings.base import conf_line
from agents.settings.smt import CONTROL as SMT
from apps.tuning import gucs

NEEDS_START = "postmaster"
AT_START = "at the start of"
COMMANDS = {
    "server": ("PostgreSQL", "postgres -D $PGDATA"),
    "client": ("the load generator", "pgbench ..."),
    "tracer": ("the tracer", "perf ..."),
}
SYSCTL = "/proc/sys/"
THP = "/sys/kernel/mm/transparent_hugepage/"


@dataclass(frozen=True)
class PlannedChange:
    """One change. `present` is None if it was not read. `also`: what the kernel changes with it."""

    setting: str
    kind: str  # kernel, boot, initdb, conf, write, hold, limit, act, sql; of commands: server, client, tracer
    key: str
    wanted: str
    line: str
    present: str | None = None
    when: str = ""
    also: dict[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        return self.present == self.wanted


@dataclass(frozen=True)
class Refusal:
    """A field that the host does not support, and what it accepts."""

    field: str
    value: Any
    accepted: str
    hint: str = ""


@dataclass(frozen=True)
class Effect:
    """One setting: its changes, and what the host refuses."""

    setting: Setting
    wanted: Any
    plan: Plan
    items: list[PlannedChange]
    refusals: list[Refusal]
    current: Any = None  # the setting's own discover, if the host was queried


@dataclass(frozen=True)
class DryRun:
    """All settings of a profile on one host."""

    effects: list[Effect]
    level: str
    conflicts: list[Refusal] = field(default_factory=list)

    @property
    def refusals(self) -> list[Refusal]:
        return [refusal for effect in self.effects for refusal in effect.refusals] + self.conflicts

    @property
    def items(self) -> list[PlannedChange]:
        return [item for effect in self.effects for item in effect.items]

    @property
    def needs_root(self) -> list[str]:
        plans = ((effect.setting.title, effect.plan) for effect in self.effects)
        return [title for title, plan in plans if plan.boot or plan.writes or plan.holds or plan.acts or plan.limits]

    @property
    def needs_start(self) -> list[str]:
        """The settings that a running PostgreSQL only applies after a restart."""
        return [item.key for item in self.items if item.when == f"{AT_START} PostgreSQL"]

    @property
    def boots(self) -> bool:
        """Whether a run restarts the host."""
        return any(effect.plan.boot for effect in self.effects)

    @property
    def risks(self) -> list[tuple[str, str]]:
        return [
            (effect.setting.title, effect.setting.risk)
            for effect in self.effects
            if not effect.setting.risk.startswith("none")
        ]

    @property
    def lines(self) -> list[str]:
        """The commands that a DBA would type, in a working order: boot of the host, cluster, parameters, kernel,
        start."""
        boots = [line for plan in self.plans.values() for line in Plan(boot=plan.boot).lines()]
        return [*boots, *script(self.plans), *starts(self.plans)]

    @property
    def plans(self) -> dict[str, Plan]:
        """The plans of the settings that the host supports."""
        return {effect.setting.name: effect.plan for effect in self.effects if not effect.refusals}


def dry_run(facts: Mapping[str, Any], settings: Mapping[str, Any], live: Mapping[str, Any] | None = None) -> DryRun:
    """Plan all settings. `live`: the agent's reply to discover, {name: {"value", "keys": {key: value}}}; without it,
    present values are those of the facts."""
    observed = live or {}
    effects = []
    for name, setting in SETTINGS.items():
        if name in settings:
            plan, refusals = attempt(facts, setting, settings[name])
            keys = observed.get(name, {}).get("keys", {})
            items = [_known(item, facts, keys) for item in items_of(name, plan)]
            effects.append(Effect(setting, settings[name], plan, items, refusals, observed.get(name, {}).get("value")))
    unknown = [
        Refusal(f"settings.{name}", settings[name], ", ".join(SETTINGS)) for name in settings if name not in SETTINGS
    ]
    return DryRun(effects, str(facts["level"]), [*unknown, *_together(facts, effects)])


def attempt(facts: Mapping[str, Any], setting: Setting, requested: Any) -> tuple[Plan, list[Refusal]]:
    """Return the plan, and every refusal. Each refused field is left out in turn, so that one does not hide the
    next."""
    refusals: list[Refusal] = []
    rest = copy.deepcopy(requested)
    while True:
        try:
            return planning.plan_settings(dict(facts), {setting.name: rest})[setting.name], refusals
        except Unplannable as error:
            if any(refusal.field == error.field for refusal in refusals):
                return Plan(), refusals
            refusals.append(Refusal(error.field, error.value, error.accepted, error.hint))
            if error.field == setting.name:
                return _as_root(facts, setting, rest), refusals
            rest = _without(rest, error.field.removeprefix(f"{setting.name}."))


def _as_root(facts: Mapping[str, Any], setting: Setting, requested: Any) -> Plan:
    """Return the plan with root level; an empty plan if anything else is missing."""
    try:
        return planning.plan_settings({**facts, "level": "root"}, {setting.name: requested})[setting.name]
    except Unplannable:
        return Plan()


def _without(requested: Any, path: str) -> Any:
    """Return a copy without the field at `path`. Names may contain dots."""
    if not isinstance(requested, dict):
        return requested
    rest = {name: value for name, value in requested.items() if name != path}
    inner = next((name for name in rest if path.startswith(f"{name}.")), None)
    return rest | ({inner: _without(rest[inner], path[len(inner) + 1 :])} if inner else {})


def _together(facts: Mapping[str, Any], effects: list[Effect]) -> list[Refusal]:
    """Return the refusals that only appear when settings that are possible on their own are planned together."""
    able = {effect.setting.name: effect.wanted for effect in effects if not effect.refusals}
    try:
        planning.check_together(able, planning.plan_settings(dict(facts), able))
    except Unplannable as error:
        return [Refusal(error.field, error.value, error.accepted, error.hint)]
    return []


def items_of(name: str, plan: Plan) -> Iterator[PlannedChange]:
    """Yield the changes of a plan."""
    if release := plan.boot.get("release"):
        line = f"# start the kernel {release}"
        yield PlannedChange(name, "kernel", "kernel", release, line, when="with a boot of the host before the run")
    for parameter in plan.boot.get("parameters", []):
        key, _, value = parameter.partition("=")
        line = f"{parameter}  # on the kernel's command line"
        yield PlannedChange(name, "boot", key, value, line, when="with a boot of the host before the run")
    for option, value in plan.initdb.items():
        line = shlex.join(["initdb", f"{option}={value}" if value else option])
        yield PlannedChange(name, "initdb", option, value, line, when="when the cluster of the run is created")
    for parameter, value in plan.conf.items():
        yield PlannedChange(name, "conf", parameter, value, conf_line(parameter, value), when=_when(parameter))
    for write in plan.writes:
        yield PlannedChange(name, "write", write.key, write.wanted, write.line(), when="at once", also=write.also)
    for hold in plan.holds:
        yield PlannedChange(
            name, "hold", hold.path, hold.shown, Plan(holds=[hold]).lines()[0], when="while the run lasts"
        )
    for file, text in plan.limits:
        line = Plan(limits=[(file, text)]).lines()[1]
        yield PlannedChange(name, "limit", file, text, line, when=f"{AT_START} PostgreSQL")
    for act in plan.acts:
        yield PlannedChange(name, "act", "once", act, act, when="while PostgreSQL is down")
    for statement in plan.sql:
        yield PlannedChange(name, "sql", "once", statement, Plan(sql=[statement]).lines()[0], when="before each step")
    for kind, (who, command) in COMMANDS.items():
        prefix = getattr(plan, f"{kind}_prefix")
        if prefix:
            shown = shlex.join(prefix)
            yield PlannedChange(
                name, kind, f"{prefix[0]} of {who}", shown, f"{shown} {command}", when=f"{AT_START} {who}"
            )


def _when(parameter: str) -> str:
    context = gucs.catalogue().get(parameter, {}).get("context", "")
    return f"{AT_START} PostgreSQL" if context in (NEEDS_START, "") else "with a reload"


def script(plans: Mapping[str, Plan]) -> list[str]:
    """Return the commands before the start: cluster, its parameters, kernel."""
    options = [word for plan in plans.values() for word in _options(plan)]
    lines = [f"{shlex.join(['initdb', *options])} -D $PGDATA"] if options else []
    lines += [line for plan in plans.values() for line in Plan(conf=plan.conf).lines()]
    every = [item for name, plan in plans.items() for item in items_of(name, plan)]
    return lines + [item.line for item in every if item.kind in ("write", "hold", "act")]


def starts(plans: Mapping[str, Plan]) -> list[str]:
    """Return the start commands: the control group for PostgreSQL, the commands with the prefixes of all earlier
    plans, and the statements for the running server."""
    lines = Plan(limits=[limit for plan in plans.values() for limit in plan.limits]).lines()
    for kind, (_, command) in COMMANDS.items():
        prefix = [word for plan in plans.values() for word in getattr(plan, f"{kind}_prefix")]
        lines += [f"{shlex.join(prefix)} {command}"] if prefix else []
        lines += [line for plan in plans.values() for line in Plan(sql=plan.sql).lines()] if kind == "server" else []
    return lines


def _options(plan: Plan) -> list[str]:
    return [f"{option}={value}" if value else option for option, value in plan.initdb.items()]


def _known(item: PlannedChange, facts: Mapping[str, Any], keys: Mapping[str, str]) -> PlannedChange:
    return PlannedChange(**{**vars(item), "present": _present(item, facts, keys)})


def _present(item: PlannedChange, facts: Mapping[str, Any], keys: Mapping[str, str]) -> str | None:
    """Return the present value: as the host reported it now, else from its facts; None if neither has it."""
    if item.kind == "kernel":
        return str(facts.get("kernel", {}).get("release", ""))
    if item.kind == "boot":
        line = facts.get("kernel", {}).get("cmdline", "")
        return cmdline.values(line).get(cmdline.name_of(item.key), "not set")
    if item.kind in ("conf", "initdb"):
        return "PostgreSQL's default"
    if item.kind in ("act", "sql", "limit") or item.kind in COMMANDS:
        return "none"
    if item.key in keys:
        return keys[item.key]
    return fact_of(item.key, facts)


def fact_of(key: str, facts: Mapping[str, Any]) -> str | None:
    """Return the value of a kernel file from the facts of a host."""
    if key.startswith(SYSCTL):
        name = key[len(SYSCTL) :].replace("/", ".")
        fact = facts.get("sysctls", {}).get(name, _pool(facts) if name == "vm.nr_hugepages" else None)
    elif key.startswith(THP):
        name, slash, knob = key[len(THP) :].partition("/")
        mode = facts.get("transparent_huge_pages", {}).get(name)
        fact = mode.get(knob) if slash and mode else mode
    elif key == SMT:
        fact = facts.get("cpus", {}).get("smt")
    else:
        fact = _device(key, facts)
    return None if fact is None else str(fact)


def _pool(facts: Mapping[str, Any]) -> Any:
    """Return the number of huge pages of the default size in the kernel's pool."""
    pages = facts.get("huge_pages", {})
    return next((size["total"] for size in pages.get("sizes", []) if size["kb"] == pages.get("default_kb")), None)


def _device(key: str, facts: Mapping[str, Any]) -> Any:
    """Return the value of /sys/block/DEVICE/queue/FILE, if the facts list it."""
    match = re.fullmatch(r"/sys/block/([^/]+)/queue/([^/]+)", key)
    devices = {device.get("name"): device for device in facts.get("block_devices", [])}
    return devices.get(match[1], {}).get(match[2]) if match else None
