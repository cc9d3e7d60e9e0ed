"""Every single setting that a factor or a profile can name: PostgreSQL's parameters and the knobs of the host. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.host.sysctls import BY_NAME
from agents.settings import SETTINGS
from agents.settings.postgresql import CODE, ELSEWHERE, OURS, QUOTABLE
from apps.tuning import effects, gucs, rules

POSTGRESQL = "settings.postgresql."
RESTARTS = {"postmaster": "restart of PostgreSQL", "server": "restart of PostgreSQL", "cluster": "new cluster"}
MOST_CHOICES = 12
NO_LIMIT = 10**12  # the largest numbers of C say nothing to a reader
PARTS = re.compile(r"[._]")


@dataclass(frozen=True)
class Parameter:
    """`present` is what a run has without it, "" where that is not known; `source` says where it was read. `restart`
    names what has to begin anew for another value, "" where it takes effect by itself."""

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
        """ "128kB to 8TB; default 128MB; restart of PostgreSQL": what a reader needs who writes its levels."""
        present = f"{self.source} {self.present}" if self.present else ""
        return "; ".join(filter(None, [self.range, present, self.restart]))


def every(facts: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> list[Parameter]:
    """All of them, PostgreSQL's first, by name. `facts` of a host tell what its knobs have now; `settings`, of a
    profile in the shape of a spec, what runs that start from it have."""
    wanted = {f"settings.{path}": _word(value) for path, value in rules.flatten(settings or {}).items()}
    listed = [*sorted(_of_postgresql(), key=lambda each: each.name), *_of_host(facts or {})]
    return [_of_profile(each, wanted[each.path]) if each.path in wanted else each for each in listed]


def find(parameters: list[Parameter], typed: str) -> Parameter | None:
    """The one with this name or path."""
    return next((each for each in parameters if typed in (each.path, each.name)), None)


def matching(parameters: list[Parameter], typed: str) -> list[Parameter]:
    """Those that have every word of `typed`: names that begin with it first, then names of which a part begins with
    it, other names, and descriptions."""
    words, text = typed.lower().split(), typed.lower().strip()

    def place(each: Parameter) -> tuple[bool, bool, bool, int]:
        name, parts = each.name.lower(), PARTS.split(each.name.lower())
        begins = all(any(part.startswith(word) for part in parts) for word in words)
        return (not name.startswith(text), not begins, not all(word in name for word in words), len(name))

    found = [each for each in parameters if all(word in f"{each.path} {each.about}".lower() for word in words)]
    return sorted(found, key=place) if words else found


def near(parameters: list[Parameter], typed: str) -> list[str]:
    """Names that `typed` may have meant, at most three."""
    return difflib.get_close_matches(typed.lower(), [each.name for each in parameters], n=3)


def _of_profile(known: Parameter, present: str) -> Parameter:
    return Parameter(**{**vars(known), "present": present, "source": "the profile has"})


def _of_postgresql() -> Iterator[Parameter]:
    kept = {*OURS, *CODE, *ELSEWHERE}
    for name, known in gucs.catalogue().items():
        if QUOTABLE.fullmatch(name) and known["context"] != "internal" and name not in kept:
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
    low, high = amount(known["min_val"], unit), amount(known["max_val"], unit, exact=False)
    return f"from {low}" if Decimal(known["max_val"]) > NO_LIMIT else f"{low} to {high}"


def amount(number: str, unit: str, *, exact: bool = True) -> str:
    """A number of PostgreSQL in the largest unit that needs no fraction, "16384" of 8kB as "128MB". Not exact: with
    three digits in the largest unit that fits. Numbers below 0 have meanings of their own and stay as they are."""
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
    return f"{rest:f}{largest}" if exact else f"{float(rest):.2f}".removesuffix("0").removesuffix(".0") + largest


def _of_host(facts: Mapping[str, Any]) -> Iterator[Parameter]:
    for name, setting in SETTINGS.items():
        if name != "postgresql":
            for path, schema in _leaves(f"settings.{name}", setting.schema):
                part = path.removeprefix(f"settings.{name}.")
                present = _present(path, facts) if facts else ""
                yield Parameter(
                    path,
                    part if name == "sysctl" else path.removeprefix("settings."),
                    _about("" if name == "sysctl" else setting.title, schema),
                    unit=_unit(part) if name == "sysctl" else "",
                    range=" ".join(filter(None, [_choices(schema), _unit(part) if name == "sysctl" else ""])),
                    present=present or _default(schema),
                    source="now" if present else "default",
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
    return f"{low} to {high}" if None not in (low, high) else f"from {low}" if low is not None else ""


def _unit(sysctl: str) -> str:
    """Of a kernel parameter that counts something."""
    return BY_NAME[sysctl].unit


def _default(schema: Mapping[str, Any]) -> str:
    return _word(schema["default"]) if "default" in schema else ""


def _present(path: str, facts: Mapping[str, Any]) -> str:
    """What the facts of a host say that it has now; "" where they do not tell."""
    setting, _, part = path.removeprefix("settings.").partition(".")
    key = part.replace(".", "/")
    if setting == "sysctl":
        found = effects.fact_of(f"{effects.SYSCTL}{key}", facts)
    elif setting == "transparent_huge_pages":
        found = _flag(effects.fact_of(f"{effects.THP}{key}", facts), part)
    elif path in ("settings.cpu_affinity.server", "settings.cpu_affinity.client"):
        found = facts.get("cpus", {}).get("allowed") or facts.get("cpus", {}).get("online")
    elif path.startswith("settings.cpu_power."):
        found = _of_power(part, facts)
    else:
        found = None
    return "" if found is None else _word(found)


def _flag(found: str | None, part: str) -> Any:
    return found == "1" if found is not None and part == "khugepaged.defrag" else found


def _of_power(part: str, facts: Mapping[str, Any]) -> Any:
    """The first policy of cpufreq speaks for all, as one setting changes them all."""
    frequency = facts.get("cpus", {}).get("frequency") or {}
    policies: list[Mapping[str, Any]] = frequency.get("policies", [])
    return frequency.get("boost") if part == "boost" else policies[0].get(part) if policies else None


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
