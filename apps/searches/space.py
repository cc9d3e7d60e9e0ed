"""What a search varies: one setting per line, with its range or its choices. Pure.

shared_buffers 128MB to 4GB log
random_page_cost 1 to 4
jit on, off
max_parallel_workers_per_gather 0 to 4 when jit = on
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.settings import SETTINGS
from apps.hosts.facts.topology import memory_kb
from apps.tuning import gucs, parameters, rules
from common.errors import PlanError
from common.wording import on_off

MOST = 20  # settings; more would need thousands of trials
HINT = "NAME LOW to HIGH [log] or NAME CHOICE, CHOICE; then optionally: when OTHER = CHOICE"
RANGE = re.compile(r"^(?P<low>\S+)\s+to\s+(?P<high>\S+?)(?P<log>\s+log)?$")
POSTGRESQL = parameters.POSTGRESQL
# Path -> what can happen to data. A search varies these settings only if an admin allows each of them.
RISKS = {
    f"{POSTGRESQL}fsync": "a crash can corrupt the cluster",
    f"{POSTGRESQL}full_page_writes": "a crash can corrupt pages",
    f"{POSTGRESQL}synchronous_commit": "a crash can lose committed transactions",
    f"{POSTGRESQL}zero_damaged_pages": "damaged pages are zeroed, and their rows are lost",
    f"{POSTGRESQL}ignore_checksum_failure": "damaged pages are read as if they were intact",
    f"{POSTGRESQL}ignore_invalid_pages": "recovery skips missing pages",
    f"{POSTGRESQL}data_sync_retry": "a failed fsync is repeated, although its data may be lost",
    "settings.initdb.data_checksums": "damaged pages are not detected",
}
# Allocations of a process or of the server, which cannot exceed the memory of the host.
IN_MEMORY = {
    f"{POSTGRESQL}{name}"
    for name in (
        *("shared_buffers", "work_mem", "maintenance_work_mem", "autovacuum_work_mem", "temp_buffers", "wal_buffers"),
        *("logical_decoding_work_mem", "vacuum_buffer_usage_limit"),
    )
}

Value = int | float | str
Values = dict[str, Value]  # name -> value in the setting's own unit, without settings whose condition does not hold


@dataclass(frozen=True)
class Dimension:
    """One setting of a space: numbers from `low` to `high` in `unit`, or `choices`."""

    name: str
    path: str
    kind: str  # "integer", "real" or "choice"
    unit: str = ""
    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[str, ...] = ()
    when: tuple[str, tuple[str, ...]] | None = None

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Whether its condition on another setting holds."""
        return self.when is None or values.get(self.when[0]) in self.when[1]

    def accepts(self, value: Value) -> bool:
        """Whether the value is in the range or one of the choices."""
        if self.kind == "choice":
            return value in self.choices
        return not isinstance(value, str) and self.low <= value <= self.high

    def position(self, value: Value) -> float:
        """From 0 at the lower bound to 1 at the upper one; choices are evenly spaced."""
        if self.kind == "choice":
            return self.choices.index(str(value)) / max(1, len(self.choices) - 1)
        if self.log:
            return math.log(float(value) / self.low) / math.log(self.high / self.low)
        return (float(value) - self.low) / (self.high - self.low)

    def rounded(self, value: Value) -> Value:
        """The nearest short value in the range: a multiple of 1/32 of its power of two."""
        if self.kind == "choice" or not value:
            return value
        number = float(value)
        step = 2.0 ** (math.floor(math.log2(abs(number))) - 5)
        near = round(number / step) * step
        near = min(max(near, self.low), self.high)
        return round(near) if self.kind == "integer" else near

    def setting(self, value: Value) -> Any:
        """The value as a factor's level sets it."""
        if self.kind == "choice":
            return self._choice(str(value))
        if not self.path.startswith(POSTGRESQL):
            return value
        if self.kind == "integer":
            return parameters.amount(f"{value}", self.unit)
        return f"{Decimal(f'{value:.6g}'):f}{self.unit}"

    def _choice(self, text: str) -> Any:
        """A choice in the type of the setting: for a setting of the host a boolean, an integer or a string."""
        if self.path.startswith(POSTGRESQL):
            return text
        schema = parameters.schema_of(self.path) or {}
        if schema.get("type") == "boolean":
            return text == "on"
        return int(text) if schema.get("type") == "integer" else text

    @property
    def shown(self) -> str:
        """ "128MB to 4GB, log"."""
        if self.kind == "choice":
            return ", ".join(self.choices)
        return f"{self.text(self.low)} to {self.text(self.high)}{', log' if self.log else ''}"

    def text(self, value: Value) -> str:
        """The value with its unit, as users see it."""
        return on_off(self.setting(value if self.kind == "choice" else self._number(value)))

    def _number(self, value: Value) -> Value:
        return round(float(value)) if self.kind == "integer" else float(value)


@dataclass(frozen=True)
class Space:
    dimensions: tuple[Dimension, ...]
    lines: tuple[str, ...] = ()

    def level(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Path -> value that a level with these values sets."""
        return {
            dimension.path: dimension.setting(values[dimension.name])
            for dimension in self.dimensions
            if dimension.name in values
        }

    def has(self, values: Mapping[str, Value], fixed: Mapping[str, Value]) -> bool:
        """Whether the values include the fixed ones of all settings that apply to them. Those of a trial from before a
        fixed setting was added do not."""
        applying = [
            dimension.name for dimension in self.dimensions if dimension.name in fixed and dimension.applies(values)
        ]
        return all(values.get(name) == fixed[name] for name in applying)

    def text(self, values: Mapping[str, Value]) -> str:
        """ "work_mem=16MB, jit=off"."""
        return ", ".join(f"{name}={text}" for name, text in self.texts(values).items())

    def texts(self, values: Mapping[str, Value]) -> dict[str, str]:
        """{"work_mem": "16MB", "jit": "off"}, in the order of the settings."""
        return {
            dimension.name: dimension.text(values[dimension.name])
            for dimension in self.dimensions
            if dimension.name in values
        }

    @property
    def risks(self) -> dict[str, str]:
        """Name of each setting that risks data -> what can happen."""
        return {dimension.name: RISKS[dimension.path] for dimension in self.dimensions if dimension.path in RISKS}


def read(lines: Iterable[str]) -> Space:
    """The space that these lines describe. PlanError names the wrong line and what is accepted."""
    wanted = [line.strip() for line in lines if line.strip()]
    if not wanted:
        raise PlanError("space", "a search needs at least one setting", hint=HINT)
    if len(wanted) > MOST:
        raise PlanError("space", f"{len(wanted)} settings are too many", hint=f"at most {MOST}")
    known = parameters.every()
    dimensions: list[Dimension] = []
    for number, line in enumerate(wanted, 1):
        dimensions.append(_dimension(f"space.{number}", line, known, dimensions))
    return Space(tuple(dimensions), tuple(wanted))


def value_of(field: str, each: Dimension, text: str) -> Value:
    """The value of a setting that a user entered, in its own unit. PlanError unless it is in the range."""
    if each.kind == "choice":
        _check_choices(field, each.name, [text], each.choices)
        return text
    parameter = parameters.find(parameters.every(), each.name)
    number = _number(field, parameter, text, each.unit) if parameter else math.nan
    if not each.low <= number <= each.high:
        raise PlanError(field, f"{text} is not in the range of {each.name}", hint=f"accepted: {each.shown}")
    return round(number) if each.kind == "integer" else number


def check(space: Space, facts: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """PlanError if a range exceeds the host's memory, or if a setting risks data and is not `allowed`."""
    for number, each in enumerate(space.dimensions, 1):
        if each.path in RISKS and each.name not in allowed:
            hint = f"remove it, or ask an admin to create the search and allow {each.name}"
            raise PlanError(f"space.{number}", f"{each.name} risks data: {RISKS[each.path]}", hint=hint)
        scale = gucs.scale_of(each.unit)
        if each.path in IN_MEMORY and scale and facts and each.high * scale[0] > memory_kb(facts) * 1024:
            memory = parameters.amount(str(memory_kb(facts)), "kB", exact=False)
            message = f"{each.name}: {each.text(each.high)} exceeds the memory of the host, {memory}"
            raise PlanError(f"space.{number}", message, hint="use a lower upper bound")
    unknown = [name for name in allowed if name not in space.risks]
    if unknown:
        accepted = ", ".join(space.risks) or "none: no setting of this search risks data"
        raise PlanError("allowed_risks", f"{unknown[0]} is not a setting that risks data", hint=f"accepted: {accepted}")


def _dimension(field: str, line: str, known: list[parameters.Parameter], before: Sequence[Dimension]) -> Dimension:
    name, _, rest = line.partition(" ")
    wanted, _, condition = rest.strip().partition("when ")
    parameter = parameters.find(known, name)
    if parameter is None or not parameter.path.startswith("settings."):
        near = parameters.near(known, name)
        hint = f"did you mean {', '.join(near)}?" if near else "accepted: the names on the page Settings"
        raise PlanError(field, f"{name!r} is not a setting", hint=hint)
    if parameter.name in {dimension.name for dimension in before}:
        raise PlanError(field, f"{parameter.name} appears twice", hint="use each setting once")
    when = _condition(field, condition, before) if condition else None
    return _read(field, parameter, wanted.strip(), when)


def _condition(field: str, text: str, before: Sequence[Dimension]) -> tuple[str, tuple[str, ...]]:
    name, _, choices = (part.strip() for part in text.partition("="))
    other = next((dimension for dimension in before if dimension.name == name and dimension.choices), None)
    if other is None:
        earlier = ", ".join(dimension.name for dimension in before if dimension.choices) or "none in this space"
        raise PlanError(field, f"{name!r} is not an earlier setting with choices", hint=f"accepted: {earlier}")
    wanted = tuple(part.strip() for part in choices.split(","))
    _check_choices(field, name, wanted, other.choices)
    return name, wanted


def _check_choices(field: str, name: str, wanted: Sequence[str], accepted: Sequence[str]) -> None:
    for choice in wanted:
        if choice not in accepted:
            raise PlanError(field, f"{choice!r} is not a choice of {name}", hint=f"accepted: {', '.join(accepted)}")


def _read(
    field: str, parameter: parameters.Parameter, text: str, when: tuple[str, tuple[str, ...]] | None
) -> Dimension:
    kind, choices = _kind(parameter.path)
    common = {"name": parameter.name, "path": parameter.path, "when": when}
    match = RANGE.match(text)
    if kind != "choice" and match:
        unit = parameter.unit if parameter.path.startswith(POSTGRESQL) else ""
        low, high = (_number(field, parameter, match[end], unit) for end in ("low", "high"))
        if kind == "integer":  # as PostgreSQL rounds a value to its unit
            low, high = round(low), round(high)
        log = bool(match["log"])
        if not low < high or (log and low <= 0):
            hint = "the lower bound must be below the upper bound" + ("; log needs one above 0" if log else "")
            raise PlanError(field, f"{text!r} is not a range", hint=hint)
        return Dimension(**common, kind=kind, unit=unit, low=low, high=high, log=log)  # type: ignore[arg-type]
    wanted = tuple(part.strip() for part in text.split(",") if part.strip()) or choices
    if len(wanted) < 2 or len(set(wanted)) < len(wanted):
        raise PlanError(field, f"{text!r} is not a range or a list of at least two choices", hint=HINT)
    if choices and not parameter.path.startswith(POSTGRESQL):
        _check_choices(field, parameter.name, wanted, choices)
    dimension = Dimension(**common, kind="choice", choices=wanted)  # type: ignore[arg-type]
    for choice in wanted:
        _check(field, parameter.path, choice, dimension)
    return dimension


def _kind(path: str) -> tuple[str, tuple[str, ...]]:
    """Kind of a setting, and all its choices if they are known."""
    if path.startswith(POSTGRESQL):
        known = gucs.catalogue()[path.removeprefix(POSTGRESQL)]
        choices = {"bool": ["on", "off"], "enum": known["enumvals"]}.get(known["vartype"], [])
        return {"integer": "integer", "real": "real"}.get(known["vartype"], "choice"), tuple(choices)
    schema = parameters.schema_of(path) or {}
    if "enum" in schema or schema.get("type") == "boolean":
        return "choice", tuple(map(str, schema.get("enum", ("on", "off"))))
    return {"integer": "integer", "number": "real"}.get(str(schema.get("type")), "choice"), ()


def _number(field: str, parameter: parameters.Parameter, text: str, unit: str) -> float:
    """A bound in the setting's own unit."""
    match = gucs.QUANTITY.match(text)
    if match is None:
        raise PlanError(field, f"{text!r} is not a number", hint=f"{parameter.name}: {parameter.range}")
    _check(field, parameter.path, text, None)
    scale = gucs.scale_of(unit)
    factor = Decimal(scale[1][match[2]]) / scale[0] if match[2] and scale else Decimal(1)
    return float(Decimal(match[1]) * factor)


def _check(field: str, path: str, text: str, choice: Dimension | None) -> None:
    """PlanError unless the setting accepts the value."""
    try:
        if path.startswith(POSTGRESQL):
            gucs.check(field, path.removeprefix(POSTGRESQL), text)
        else:
            setting, *_ = path.removeprefix("settings.").split(".")
            value = choice.setting(text) if choice else (float(text) if "." in text else int(text))
            wanted = rules.patch({}, {path.removeprefix(f"settings.{setting}."): value})
            rules.check_schema(field, wanted, SETTINGS[setting].schema)
    except ValueError as error:
        raise PlanError(field, f"{text!r} is not a number", hint="a number without a unit") from error
