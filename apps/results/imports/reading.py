"""One output, or one row of a table, as a step of a run: what it is, its figures, or why it has none. Pure."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.errors import FormatError, WorkloadError
from apps.results.formats.table import Row, Table, moment, plain
from apps.results.imports.columns import Use
from apps.results.imports.files import File
from apps.results.imports.manifest import Entry, block
from apps.results.measure import MEASURE, Measurement, measure

FIGURES = "figures"
ROW = "row.csv"
TABLES = (".csv", ".tsv")
ERRORS = (".err", ".stderr")
# What an output begins with or holds, by which its tool is told; of stdout, then of stderr.
_SIGNS: dict[str, re.Pattern[bytes]] = {
    "fio": re.compile(rb'"fio version"\s*:'),
    "pgbench": re.compile(rb"^(pgbench \(|transaction type: |pgbench: |progress: )", re.M),
    "sysbench": re.compile(rb"^(sysbench [0-9]|SQL statistics:)", re.M),
}
# The agent's name for the file that a tool's results are in; stdout where it is not another.
_RESULT = {"fio": "fio.json"}
_LOOKED_AT = 1024**2


@dataclass(frozen=True)
class Reading:
    """A step of a run. `outputs`: the agent's name of a file -> (path it was uploaded as, content)."""

    source: str
    kind: str
    entry: Entry
    outputs: Mapping[str, tuple[str, bytes]]
    figures: tuple[Measurement, ...] = ()
    error: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def guess_kind(stdout: bytes, stderr: bytes = b"") -> str:
    """The tool that wrote this, "" where nothing tells."""
    for raw in (stdout, stderr):
        found = (kind for kind, sign in _SIGNS.items() if kind in MEASURE and sign.search(raw[:_LOOKED_AT]))
        if kind := next(found, ""):
            return kind
    return ""


def read_output(entry: Entry, stdout: File, stderr: File | None) -> Reading:
    """A tool's output. FormatError where its kind is not known; what was aborted or cut is a reading with an error."""
    kind = entry.kind or guess_kind(stdout.content, stderr.content if stderr else b"")
    if kind not in MEASURE or kind == FIGURES:
        wrong = f"{kind!r} is not read" if kind else "what wrote this is not known"
        known = ", ".join(name for name in MEASURE if name != FIGURES)
        raise FormatError(stdout.path, wrong, hint=f"output of {known}, or a table as .csv")
    outputs = {_RESULT.get(kind, "stdout"): (stdout.path, stdout.content)}
    if stderr:
        outputs["stderr"] = (stderr.path, stderr.content)
    return _measured(Reading(stdout.path, kind, entry, outputs))


def _measured(reading: Reading) -> Reading:
    if reading.entry.outcome not in ("", "ok"):
        told = reading.entry.error or f"{reading.entry.outcome}, as the manifest says"
        return _with(reading, error=WorkloadError(reading.kind, told).as_dict())
    outputs = {name: content for name, (_, content) in reading.outputs.items()}
    try:
        found = measure(reading.kind, outputs, reading.options)
    except WorkloadError as error:
        return _with(reading, error={**error.as_dict(), "file": reading.source})
    return _with(reading, figures=tuple(found))


def _with(reading: Reading, **changes: Any) -> Reading:
    return Reading(**{**reading.__dict__, **changes})


def read_rows(entry: Entry, file: File, table: Table, uses: Mapping[str, Use]) -> Iterator[Reading | FormatError]:
    """A reading for each row and step, or why it cannot be told which run a row is."""
    known = {header: set(table.column(header)) for header, use in uses.items() if use["as"] == "factor"}
    steps: dict[str, dict[str, Use]] = {}
    for header, use in uses.items():
        if use["as"] == "figure":
            steps.setdefault(use.get("step") or entry.step, {})[header] = use
    for row in table.rows:
        where = f"{file.path}, line {row.line}"
        try:
            said = _said(entry, table, row, uses, known, where)
        except FormatError as error:
            yield error
            continue
        for step, columns in steps.items():
            yield _row(where, said, step, columns, file, table, row)


def _said(
    entry: Entry, table: Table, row: Row, uses: Mapping[str, Use], known: Mapping[str, set[str]], where: str
) -> Entry:
    cells = dict(zip(table.head, row.cells, strict=False))
    levels, words = dict(entry.levels), dict[str, Any]()
    for header, use in uses.items():
        cell = cells.get(header, "")
        if use["as"] == "factor":
            if cell not in known[header] or not cell:
                shown = ", ".join(row.cells)[:80]
                hint = f"it has {len(row.cells)} of {len(table.head)} cells; a row needs each of its factors"
                raise FormatError(where, f"{shown!r} does not tell its {use['name']}, and is left out", hint=hint)
            levels[use["name"]] = _level(cell, use.get("levels") or {})
        elif cell:
            words |= _word(use["as"], plain(cell), f"{where}, {header}")
    return Entry(**{**entry.__dict__, **words, "levels": levels})


def _level(cell: str, names: Mapping[str, str]) -> str:
    """Its name where the mapping has one; `*` names all others."""
    return names.get(cell) or names.get("*") or plain(cell)


def _word(use: str, cell: str, where: str) -> dict[str, Any]:
    readers: dict[str, Any] = {
        "time": lambda: {"ended": moment(cell, where)},
        "started": lambda: {"started": moment(cell, where)},
        "block": lambda: {"block": block(cell, where)},
        "outcome": lambda: {"outcome": cell},
        "error": lambda: {"error": cell},
    }
    found: dict[str, Any] = readers[use]() if use in readers else {}
    return found


def _row(where: str, said: Entry, step: str, columns: Mapping[str, Use], file: File, table: Table, row: Row) -> Reading:
    """The row is kept as a table of its own, so that it can be read again like any output."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=table.delimiter)
    writer.writerows([table.head, row.cells])
    named = {header: {key: use.get(key, "") for key in ("name", "unit", "better")} for header, use in columns.items()}
    entry = Entry(**{**said.__dict__, "step": step})
    outputs = {ROW: (f"{file.path}, line {row.line}", text.getvalue().encode())}
    return _measured(Reading(where, FIGURES, entry, outputs, options={"columns": named}))


def key(levels: Mapping[str, str]) -> str:
    """The same for the same levels, whatever their order."""
    return json.dumps(levels, sort_keys=True)
