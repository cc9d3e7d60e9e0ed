"""All parameters that a factor or a profile can set: PostgreSQL's, and settings of the host. Pure."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from agents.host.sysctls import BY_NAME
from agents.settings import SETTINGS
from agents.settings.postgresql import CODE, ELSEWHERE, OURS, QUOTABLE
from apps.tuning import effects, gucs, rules
from common.wording import on_off

POSTGRESQL = "settings.postgresql."
RESTARTS = {
    "postmaster": "restart of PostgreSQL",
    "server": "restart of PostgreSQL",
    "cluster": "new cluster",
    "host": "restart of the host",
}
MOST_CHOICES = 12
NO_LIMIT = 10**12  # the limits of C types are of no use to a reader
PARTS = re.compile(r"[._]")


@dataclass(frozen=True)
class Parameter:
    """`present`: the value of a run that does not set it, "" if unknown; `source`: its origin. `restart`: what
    another value restarts or creates, "" for nothing."""

    path: str
    name: str
    about: str
    unit: str = ""
    range: str = ""
    present: str = ""
    source: str = ""
    restart: str = ""

    @property
    def hint(self) -> str:
        """A hint for choosing levels: "128kB to 8TB; default 128MB; restart of PostgreSQL"."""
        present = f"{self.source} {self.present}" if self.present else ""
        return "; ".join(filter(None, [self.range, present, self.restart]))


def every(facts: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> list[Parameter]:
    """All parameters, PostgreSQL's first, by name. Present values are those of the profile's `settings`, in the shape
    of a spec, then those in the `facts` of a host, then the defaults."""
    profile_values = {f"settings.{path}": on_off(value) for path, value in rules.flatten(settings or {}).items()}
    listed = [*_of_postgresql(), *(_now(parameter, facts or {}) for parameter in _of_host())]
    return [
        _of_profile(parameter, profile_values[parameter.path]) if parameter.path in profile_values else parameter
        for parameter in listed
    ]


def find(parameters: list[Parameter], typed: str) -> Parameter | None:
    """The parameter with this name or path."""
    return next((parameter for parameter in parameters if typed in (parameter.path, parameter.name)), None)


def matching(parameters: list[Parameter], typed: str) -> list[Parameter]:
    """The parameters that contain every word of `typed`: first names that begin with it, then names with a part that
    begins with each word, then other names, then descriptions."""
    terms, text = typed.lower().split(), typed.lower().strip()

    def rank(each: Parameter) -> tuple[bool, bool, bool, int]:
        name, parts = each.name.lower(), PARTS.split(each.name.lower())
        begins = all(any(part.startswith(word) for part in parts) for word in terms)
        return (not name.startswith(text), not begins, not all(word in name for word in terms), len(name))

    matches = [
        parameter
        for parameter in parameters
        if all(word in f"{parameter.path} {parameter.about}".lower() for word in terms)
    ]
    return sorted(matches, key=rank) if terms else matches


def near(parameters: list[Parameter], typed: str) -> list[str]:
    """Names similar to `typed`, at most three."""
    return difflib.get_close_matches(typed.lower(), [parameter.name for parameter in parameters], n=3)


def _of_profile(known: Parameter, present: str) -> Parameter:
    return replace(known, present=present, source="profile")


def _now(known: Parameter, facts: Mapping[str, Any]) -> Parameter:
    present = _present(known.path, facts) if facts else ""
    return replace(known, present=present, source="now") if present else known


@functools.cache
def _of_postgresql() -> tuple[Parameter, ...]:
    """PostgreSQL's parameters with their defaults, by name. Parsed once, because it takes longer than a page."""
    return tuple(sorted(_parsed(), key=lambda each: each.name))


def _parsed() -> Iterator[Parameter]:
    reserved = {*OURS, *CODE, *ELSEWHERE}
    for name, known in gucs.catalogue().items():
        if QUOTABLE.fullmatch(name) and known["context"] != "internal" and name not in reserved:
            unit = known["unit"] or ""
            yield Parameter(
                f"{POSTGRESQL}{name}",
                name,
                known["short_desc"].rstrip("."),
                unit=unit,
                range=_range(known, unit),
                present=amount(known["boot_val"] or "", unit),
                source="default",
                restart=RESTARTS.get(known["context"], ""),
            )


def _range(known: Mapping[str, Any], unit: str) -> str:
    if known["vartype"] == "bool":
        return "on or off"
    if known["vartype"] == "enum":
        return ", ".join(known["enumvals"])
    if known["vartype"] not in ("integer", "real"):
        return ""
    low, high = _limit(known["min_val"], unit), _limit(known["max_val"], unit)
    return f"from {low}" if Decimal(known["max_val"]) > NO_LIMIT else f"{low} to {high}"


def _limit(number: str, unit: str) -> str:
    """Format a limit for users: three decimals at most, with a thousands separator."""
    text = amount(number, unit, exact=False)
    return f"{int(text):,}" if text.isdigit() else text


def amount(number: str, unit: str, *, exact: bool = True) -> str:
    """Return a number in the largest unit without a fraction: "16384" of 8kB as "128MB". Not `exact`: rounded, in the
    largest unit that fits.

    Negative numbers have special meanings and do not change."""
    scale = gucs.scale_of(unit)
    if scale is None or not gucs.QUANTITY.match(number) or Decimal(number) < 0:
        return number
    size, table = scale
    base = Decimal(number) * size
    fits = [name for name in table if base >= table[name] and (not exact or base % table[name] == 0)]
    if not base or not fits:
        return number
    largest = max(fits, key=lambda name: table[name])
    rest = base / table[largest]
    rounded = f"{rest:,.0f}" if rest >= 100 else f"{float(rest):.3g}"
    return f"{rest:f}{largest}" if exact else f"{rounded}{largest}"


@functools.cache
def _of_host() -> tuple[Parameter, ...]:
    """The settings of hosts with their defaults."""
    return tuple(
        _of_setting(name, path, schema)
        for name, setting in SETTINGS.items()
        if name != "postgresql"
        for path, schema in _leaves(f"settings.{name}", setting.schema)
    )


def _of_setting(name: str, path: str, schema: Mapping[str, Any]) -> Parameter:
    setting, part = SETTINGS[name], path.removeprefix(f"settings.{name}.")
    of_kernel, unit = name == "sysctl", BY_NAME[part].unit if name == "sysctl" else ""
    return Parameter(
        path,
        part if of_kernel else path.removeprefix("settings."),
        _about("" if of_kernel else setting.title, schema),
        unit=unit,
        range=" ".join(filter(None, [_choices(schema), unit])),
        present=_default(schema),
        source="default",
        restart=RESTARTS.get(setting.begins_anew(part), ""),
    )


def _leaves(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        if inner.get("properties"):
            yield from _leaves(f"{path}.{name}", inner)
        elif inner.get("type") != "object":
            yield f"{path}.{name}", inner


def _about(title: str, schema: Mapping[str, Any]) -> str:
    named = ": ".join(filter(None, [title, str(schema.get("title", ""))])) if title else ""
    return ". ".join(filter(None, [named, str(schema.get("description", ""))]))


def _choices(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"][:MOST_CHOICES]))
    if schema.get("type") == "boolean":
        return "on or off"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        return ""
    return f"from {low:,}" if high is None else f"{low:,} to {high:,}"


def _default(schema: Mapping[str, Any]) -> str:
    return on_off(schema["default"]) if "default" in schema else ""


def _present(path: str, facts: Mapping[str, Any]) -> str:
    """The value in the facts of a host; "" if they do not include it."""
    setting, _, part = path.removeprefix("settings.").partition(".")
    key = part.replace(".", "/")
    if setting == "sysctl":
        value = effects.fact_of(f"{effects.SYSCTL}{key}", facts)
    elif setting == "transparent_huge_pages":
        value = _flag(effects.fact_of(f"{effects.THP}{key}", facts), part)
    elif path in ("settings.cpu_affinity.server", "settings.cpu_affinity.client"):
        value = facts.get("cpus", {}).get("allowed") or facts.get("cpus", {}).get("online")
    elif path.startswith("settings.cpu_power."):
        value = _of_power(part, facts)
    else:
        value = None
    return "" if value is None else on_off(value)


def _flag(value: str | None, part: str) -> Any:
    return value == "1" if value is not None and part == "khugepaged.defrag" else value


def _of_power(part: str, facts: Mapping[str, Any]) -> Any:
    """Return a value of the first cpufreq policy, because one setting changes all policies."""
    frequency = facts.get("cpus", {}).get("frequency") or {}
    policies: list[Mapping[str, Any]] = frequency.get("policies", [])
    return frequency.get("boost") if part == "boost" else policies[0].get(part) if policies else None


def schema_of(path: str) -> Mapping[str, Any] | None:
    """The JSON schema of a setting of the host; None for PostgreSQL's parameters and for unknown paths."""
    name = path.removeprefix("settings.").partition(".")[0]
    leaves = dict(_leaves(f"settings.{name}", SETTINGS[name].schema)) if name in SETTINGS else {}
    return leaves.get(path)
