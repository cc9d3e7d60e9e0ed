"""Convert rows of a form to factors and back: one row sets one path to one value, for one level of one factor. Pure.

What simple campaigns do not need is entered as text: conditions between levels, the order of a factor's levels, and
the combinations of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.datasets import DATASETS
from agents.settings import SETTINGS
from agents.workloads import WORKLOADS
from apps.campaigns.design import data, ranges
from apps.campaigns.design.steps import Step
from apps.tuning import fields, gucs
from common.errors import PlanError
from common.wording import counted, on_off

BLANK_ROWS = 2
TARGET = {"type": "object", "properties": {"bin_dir": {"type": "string"}}}
# Paths of the same option: for all steps of a tool, for one step, and as errors name that of a single step.
OPTION = re.compile(r"^(workload|steps\.[^.]+|options)\.")


@dataclass
class FactorRow:
    """The input of a row, and its error."""

    factor: str = ""
    level: str = ""
    path: str = ""
    value: str = ""
    error: str = ""
    hint: str = ""  # range and present value of the parameter

    @property
    def long(self) -> bool:
        """Whether its value has several lines, as scripts do."""
        return "\n" in self.value

    @property
    def blank(self) -> bool:
        return not (self.level or self.path or self.value)


def roots(steps: Sequence[Step], dataset: str = "") -> dict[str, Mapping[str, Any]]:
    """Return the schemas of all paths, for a workload of these steps and a data set of this kind; "" is the default
    kind of the steps."""
    schemas: dict[str, Mapping[str, Any]] = {f"settings.{name}": each.schema for name, each in SETTINGS.items()}
    of_steps = {step["name"]: WORKLOADS[step["kind"]].schema for step in steps}
    properties = {name: each for schema in of_steps.values() for name, each in schema["properties"].items()}
    schemas["workload"] = {"type": "object", "properties": properties}
    kind = dataset or data.default_kind(steps)
    if kind:
        schemas["dataset"] = DATASETS[kind].schema
    if dataset or any(WORKLOADS[step["kind"]].needs_postgres for step in steps):
        schemas["target"] = TARGET
    schemas["steps"] = {"type": "object", "properties": of_steps}
    return schemas


def rows_of(factors: Iterable[Mapping[str, Any]]) -> list[FactorRow]:
    """Return factors as rows. A level that sets two paths has two rows."""
    return [
        FactorRow(factor["name"], level["label"], path, on_off(value))
        for factor in factors
        for level in factor["levels"]
        for path, value in (level["set"] or {"": ""}).items()
    ]


def rows_typed(columns: Mapping[str, list[str]]) -> list[FactorRow]:
    """Return the rows in the parallel lists of a posted form: factor, level, path, value."""
    lists = [columns.get(name, []) for name in ("factor", "level", "path", "value")]
    # Browsers send line breaks of scripts as CRLF.
    return [FactorRow(*(text.strip().replace("\r\n", "\n") for text in texts)) for texts in zip(*lists, strict=False)]


def spread(rows: Iterable[FactorRow], steps: Sequence[Step], dataset: str = "") -> list[FactorRow]:
    """Return the rows, with one row per level for a row with several values, such as "1, 4, 16" or "on, off"."""
    schemas = roots(steps, dataset)
    return [replace(row, value=value) for row in rows for value in _values(row, schemas)]


def _values(row: FactorRow, schemas: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if row.level:
        return [row.value]
    if _is_number(row.path, schemas):
        return ranges.expanded(row.value)
    levels = list(dict.fromkeys(part.strip() for part in row.value.split(",")))
    accepted = set(map(str.lower, _choices(row.path, schemas)))
    return levels if len(levels) > 1 and accepted.issuperset(map(str.lower, levels)) else [row.value]


def _choices(path: str, schemas: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """Return the only values that a path accepts; empty if it accepts others."""
    name = path.removeprefix("settings.postgresql.")
    if name != path:
        known = gucs.catalogue().get(name, {})
        return gucs.BOOLEANS if known.get("vartype") == "bool" else known.get("enumvals") or ()
    schema = fields.schema_of(path, schemas)
    return gucs.BOOLEANS if schema.get("type") == "boolean" else [str(value) for value in schema.get("enum", ())]


def _is_number(path: str, schemas: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a path takes a single number, so that a comma in its value separates several values."""
    name = path.removeprefix("settings.postgresql.")
    if name != path:
        return gucs.catalogue().get(name, {}).get("vartype") in ("integer", "real")
    kinds = fields.schema_of(path, schemas).get("type", "string")
    return "string" not in kinds and ("integer" in kinds or "number" in kinds)


def factors_of(rows: Iterable[FactorRow], steps: Sequence[Step], dataset: str = "") -> list[dict[str, Any]]:
    """Return factors in the order of their first rows, with values in the types of the catalogue. A level without a
    label is named by its value."""
    schemas = roots(steps, dataset)
    factors: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row.blank:
            continue
        levels = factors.setdefault(row.factor or row.path, {})
        changes = levels.setdefault(row.level or row.value, {})
        if row.path:
            changes[row.path] = fields.parse(fields.schema_of(row.path, schemas), row.value)
    return [
        {"name": name, "levels": [{"label": label, "set": changes} for label, changes in levels.items()]}
        for name, levels in factors.items()
    ]


def arranged(factors: list[dict[str, Any]], conditions: str, orders: str) -> list[dict[str, Any]]:
    """Add `when` and `order` to the factors, from lines such as "page size = 2MB; 1GB only with huge pages = on" and
    "shared_buffers = descending".

    PlanError names the field and the line that cannot be parsed."""
    for line in filter(None, map(str.strip, conditions.splitlines())):
        name, _, rest = line.partition(" = ")
        chosen, _, condition = rest.partition(" only with ")
        other, _, labels = condition.partition(" = ")
        if not (name and chosen and other and labels):
            hint = "write: FACTOR = LEVEL; LEVEL only with OTHER = LEVEL; LEVEL"
            raise PlanError("conditions", f"{line[:90]!r} is not a condition", hint=hint)
        levels = {level["label"]: level for level in _factor("conditions", factors, name)["levels"]}
        for label in _parts(chosen):
            if label not in levels:
                hint = f"accepted: {', '.join(levels)}"
                raise PlanError("conditions", f"{name} has no level {label[:90]!r}", hint=hint)
            levels[label].setdefault("when", {})[other] = _parts(labels)
    for name, order in fields.read_lines("factor_orders", orders).items():
        _factor("factor_orders", factors, name)["order"] = order
    return factors


def _factor(field: str, factors: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    known = {factor["name"]: factor for factor in factors}
    if name not in known:
        raise PlanError(field, f"{name!r} is not a factor", hint=f"accepted: {', '.join(known)}")
    return known[name]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]


def conditions_of(factors: Iterable[Mapping[str, Any]]) -> str:
    """Return the conditions as text; levels with the same condition share a line."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for factor in factors:
        for level in factor["levels"]:
            for other, labels in level.get("when", {}).items():
                lines.setdefault((factor["name"], other, "; ".join(labels)), []).append(level["label"])
    return "\n".join(f"{name} = {'; '.join(own)} only with {other} = {of}" for (name, other, of), own in lines.items())


def orders_of(factors: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(f"{factor['name']} = {factor['order']}" for factor in factors if factor.get("order"))


def cells_of(text: str, factors: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Parse combinations from lines of labels in the order of the factors, such as "on; 1GB". "off;" leaves one out."""
    names = [factor["name"] for factor in factors]
    lines = [_parts(line) for line in text.splitlines() if line.strip()]
    for place, labels in enumerate(lines):
        if len(labels) != len(names):
            hint = f"write: {'; '.join(names)}"
            message = f"line {place + 1} has {counted(len(labels), 'level')} for {counted(len(names), 'factor')}"
            raise PlanError("cells", message, hint=hint)
    return [{name: label for name, label in zip(names, labels, strict=True) if label} for labels in lines]


def cells_text(cells: Iterable[Mapping[str, str]], factors: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join("; ".join(cell.get(factor["name"], "") for factor in factors) for cell in cells)


def mark(rows: list[FactorRow], subject: str, message: str, factors: list[dict[str, Any]]) -> bool:
    """Add the error to the row that `subject` names, such as factors.0.levels.1.set. Returns False if there is none."""
    root, *place = subject.split(".")
    if root != "factors":
        matches = [row for row in rows if row.path and _is_about(subject, row.path)]
    elif place and place[0].isdigit():
        factor = factors[int(place[0])]
        labels = [level["label"] for level in factor["levels"]]
        label = labels[int(place[2])] if len(place) > 2 and place[2].isdigit() else None
        matches = [r for r in rows if (r.factor or r.path) == factor["name"] and label in (None, r.level or r.value)]
    else:
        matches = []
    named = [row for row in matches if repr(row.value) in message]
    for row in (named or matches)[:1]:
        row.error = message
    return bool(matches)


def _is_about(subject: str, path: str) -> bool:
    """Return whether an error concerns the path of a row, also if it names the option of a step."""
    option = OPTION.sub("", path)
    if option != path and OPTION.sub("", subject) == option:
        return True
    return path == subject or path.startswith(f"{subject}.")


def set_from(rows: list[FactorRow], path: str, name: str, present: str) -> None:
    """Set this path to its present value in a blank or new row. If a row sets it already, nothing changes."""
    if any(row.path == path for row in rows):
        return
    blank = next((row for row in rows if row.blank), None)
    if blank is None:
        rows.append(blank := FactorRow())
    blank.factor, blank.path, blank.value = name, path, present


def known_paths(steps: Sequence[Step], dataset: str = "") -> list[str]:
    """Return the paths to suggest in the field of a row; each option of a single step once."""
    common = ("shared_buffers", "work_mem", "max_wal_size", "synchronous_commit", "wal_compression", "random_page_cost")
    offered = {root: schema for root, schema in roots(steps, dataset).items() if root != "steps" or len(steps) > 1}
    known = [path for path in fields.paths(offered) if not path.endswith(".")]
    return known + [f"settings.postgresql.{name}" for name in common]
