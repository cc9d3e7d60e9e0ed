"""Growth of PostgreSQL's counters over a step, from its collector's artefact postgresql.json. Only reads (SELECT).

A host sends this file. Content that the collector does not write is ignored, as if there were no file."""

from __future__ import annotations

import json
from typing import Any

from apps.campaigns.models import Artefact, Run
from apps.hosts.access.shapes import Shape, many, number, record, table, text

FILE = "postgresql.json"
MAX_ENTRIES = 10_000  # more than the collector writes


def _row(subject: str) -> Shape:
    """Return the shape of an object with a text named `subject`, and numbers."""
    named, numbers = record({subject: text()}), table(number(), MAX_ENTRIES)

    def problem_of(value: Any) -> str:
        return named(value) or numbers({name: each for name, each in value.items() if name != subject})

    return problem_of


_COUNTERS = record(
    {
        "seconds": number(0),
        "views": table(number(), MAX_ENTRIES),
        "tables": many(_row("table"), MAX_ENTRIES),
        "statements": many(_row("query"), MAX_ENTRIES),
    }
)


def path_of(step: str) -> str:
    """Return the path of the artefact of a step."""
    return f"out/{step}/{FILE}"


def of_step(run: Run, step: str) -> dict[str, Any] | None:
    """Return {"seconds", "views": {view.column: growth}, "tables": [row], "statements": [row]}; None without a
    usable file."""
    file = run.artefacts.filter(path=path_of(step)).exclude(content=None).first()
    return read(file) if file else None


def read(file: Artefact) -> dict[str, Any] | None:
    """Return the same from a file; None if its content is not from the collector."""
    try:
        counters: dict[str, Any] = json.loads(bytes(file.content or b""))
    except (ValueError, RecursionError):
        return None
    return None if _COUNTERS(counters) else counters
