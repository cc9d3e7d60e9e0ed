"""Rows of a form to factors and back: one row says that one level of one factor sets one path to one value. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.datasets import DATASETS
from agents.settings import SETTINGS
from agents.workloads import WORKLOADS
from apps.campaigns import data
from apps.campaigns.steps import Step
from apps.tuning import fields

BLANK_ROWS = 2


@dataclass
class Row:
    """What was typed, and what was wrong with it."""

    factor: str = ""
    level: str = ""
    path: str = ""
    value: str = ""
    error: str = ""

    @property
    def long(self) -> bool:
        """Whether its value has lines, as a script has."""
        return "\n" in self.value

    @property
    def blank(self) -> bool:
        return not (self.level or self.path or self.value)


def roots(steps: Sequence[Step], dataset: str = "") -> dict[str, Mapping[str, Any]]:
    """The schemas that paths lead into, for a workload of these steps and a data set of this kind; "" for the one that
    pgbench steps ask for."""
    schemas: dict[str, Mapping[str, Any]] = {f"settings.{name}": each.schema for name, each in SETTINGS.items()}
    of_steps = {step["name"]: WORKLOADS[step["kind"]].schema for step in steps}
    properties = {name: each for schema in of_steps.values() for name, each in schema["properties"].items()}
    schemas["workload"] = {"type": "object", "properties": properties}
    if dataset or any(step["kind"] == data.PGBENCH for step in steps):
        schemas["dataset"] = DATASETS[dataset or data.PGBENCH].schema
    if len(of_steps) > 1:
        schemas["steps"] = {"type": "object", "properties": of_steps}
    return schemas


def rows_of(factors: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Factors as rows; a level that sets two paths takes two rows."""
    return [
        Row(factor["name"], level["label"], path, _text(value))
        for factor in factors
        for level in factor["levels"]
        for path, value in (level["set"] or {"": ""}).items()
    ]


def _text(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def rows_typed(columns: Mapping[str, list[str]]) -> list[Row]:
    """From the parallel lists that a form posts: factor, level, path, value."""
    lists = [columns.get(name, []) for name in ("factor", "level", "path", "value")]
    # A form sends the lines of a script as every other line of the web.
    return [Row(*(text.strip().replace("\r\n", "\n") for text in texts)) for texts in zip(*lists, strict=False)]


def factors_of(rows: Iterable[Row], steps: Sequence[Step], dataset: str = "") -> list[dict[str, Any]]:
    """Factors in the order of their first rows, values typed as the catalogue wants; a nameless level is its value."""
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


def mark(rows: list[Row], subject: str, message: str, factors: list[dict[str, Any]]) -> bool:
    """Put the message on the row that `subject`, such as factors.0.levels.1.set, is about. False when there is none."""
    root, *place = subject.split(".")
    if root != "factors":
        wanted = [row for row in rows if row.path and (row.path == subject or row.path.startswith(f"{subject}."))]
    elif place and place[0].isdigit():
        factor = factors[int(place[0])]
        labels = [level["label"] for level in factor["levels"]]
        label = labels[int(place[2])] if len(place) > 2 and place[2].isdigit() else None
        wanted = [r for r in rows if (r.factor or r.path) == factor["name"] and label in (None, r.level or r.value)]
    else:
        wanted = []
    named = [row for row in wanted if repr(row.value) in message]
    for row in (named or wanted)[:1]:
        row.error = message
    return bool(wanted)


def known_paths(steps: Sequence[Step], dataset: str = "") -> list[str]:
    """Paths that a row may name, for the list that its field offers."""
    common = ("shared_buffers", "work_mem", "max_wal_size", "synchronous_commit", "wal_compression", "random_page_cost")
    known = [path for path in fields.paths(roots(steps, dataset)) if not path.endswith(".")]
    return known + [f"settings.postgresql.{name}" for name in common]
