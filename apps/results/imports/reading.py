"""Read one output, or one row of a table, as a step of a run: its tool, its figures, or its error. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.results.imports.columns import Use
from apps.results.imports.files import File
from apps.results.imports.manifest import ManifestEntry, block
from common.errors import FormatError, WorkloadError
from readers.guess import guess
from readers.measure import MEASURE, Measurement, measure
from readers.table import Row, Table, moment, plain

FIGURES = "figures"
ROW = "row.csv"
TABLES = (".csv", ".tsv")
ERRORS = (".err", ".stderr")
# Format of an output -> the tool that wrote it, and the agent's name for that file.
OUTPUTS = {
    "pgbench": ("pgbench", "stdout"),
    "pgbench-stderr": ("pgbench", "stderr"),
    "fio": ("fio", "fio.json"),
    "fio-text": ("fio", "fio.txt"),
    "fio-stderr": ("fio", "stderr"),
    "sysbench": ("sysbench", "stdout"),
    "sysbench-failure": ("sysbench", "stdout"),
}


@dataclass(frozen=True)
class Reading:
    """A step of a run. `outputs`: the agent's name of a file -> (uploaded path, content)."""

    source: str
    kind: str
    entry: ManifestEntry
    outputs: Mapping[str, tuple[str, bytes]]
    figures: tuple[Measurement, ...] = ()
    error: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_output(entry: ManifestEntry, output: File, stderr: File | None) -> Reading:
    """Read an output. FormatError if no known tool wrote it. An aborted or incomplete one is a reading with an
    error."""
    kind, name = _tool_and_name(entry, output, stderr)
    if kind not in MEASURE or kind == FIGURES:
        known = ", ".join(sorted(MEASURE.keys() - {FIGURES, "command", "sql"}))
        raise FormatError(
            output.path, f"{kind} contains no figures to compare", hint=f"accepted: output of {known}, or a .csv file"
        )
    outputs = {name: (output.path, output.content)}
    if stderr and name != "stderr":
        outputs["stderr"] = (stderr.path, stderr.content)
    return _measured(Reading(output.path, kind, entry, outputs))


def without_output(entry: ManifestEntry) -> Reading:
    """Return a failed run without outputs, from its manifest."""
    return _measured(Reading("manifest", entry.kind, entry, {}))


def _tool_and_name(entry: ManifestEntry, output: File, stderr: File | None) -> tuple[str, str]:
    """Return (tool, the agent's name of its output), from the manifest, the content, or the neighbouring files."""
    if entry.kind:
        names = (name for kind, name in OUTPUTS.values() if kind == entry.kind)
        return entry.kind, next(names, "stdout")
    try:
        tool = guess(output.content)
    except FormatError as error:
        if stderr is None or output.content.strip():
            raise FormatError(output.path, error.message, hint=error.hint) from error
        # A tool that failed at once only prints its error.
        tool = guess(stderr.content)
        return OUTPUTS[tool][0] if tool in OUTPUTS else tool, "stdout"
    return OUTPUTS.get(tool, (tool, "stdout"))


def _measured(reading: Reading) -> Reading:
    if reading.entry.outcome not in ("", "ok"):
        message = reading.entry.error or f"{reading.entry.outcome}, according to the manifest"
        return _with(reading, error=WorkloadError(reading.kind, message).as_dict())
    outputs = {name: content for name, (_, content) in reading.outputs.items()}
    try:
        figures = measure(reading.kind, outputs, reading.options)
    except WorkloadError as error:
        return _with(reading, error={**error.as_dict(), "file": reading.source})
    return _with(reading, figures=tuple(figures))


def _with(reading: Reading, **changes: Any) -> Reading:
    return Reading(**{**reading.__dict__, **changes})


def read_rows(
    entry: ManifestEntry, file: File, table: Table, uses: Mapping[str, Use]
) -> Iterator[Reading | FormatError]:
    """Yield a reading for each row and step, or the error of a row whose run is unknown."""
    known = {header: set(table.column(header)) for header, use in uses.items() if use["as"] == "factor"}
    steps: dict[str, dict[str, Use]] = {}
    for header, use in uses.items():
        if use["as"] == "figure":
            steps.setdefault(use.get("step") or entry.step, {})[header] = use
    for row in table.rows:
        where = f"{file.path}, line {row.line}"
        try:
            row_entry = _entry_of_row(entry, table, row, uses, known, where)
        except FormatError as error:
            yield error
            continue
        for step, columns in _taken(steps, table, row).items():
            yield _row(where, row_entry, step, columns, file, table, row)


def _taken(steps: Mapping[str, dict[str, Use]], table: Table, row: Row) -> Mapping[str, dict[str, Use]]:
    """Return the steps for which a row has a figure; the first step if it has none, to report that."""
    filled = {header for header, cell in zip(table.head, row.cells, strict=False) if cell}
    return {step: uses for step, uses in steps.items() if filled & uses.keys()} or dict(list(steps.items())[:1])


def _entry_of_row(
    entry: ManifestEntry, table: Table, row: Row, uses: Mapping[str, Use], known: Mapping[str, set[str]], where: str
) -> ManifestEntry:
    cells = dict(zip(table.head, row.cells, strict=False))
    levels, fields = dict(entry.levels), dict[str, Any]()
    for header, use in uses.items():
        cell = cells.get(header, "")
        if use["as"] == "factor":
            if cell not in known[header] or not cell:
                shown = ", ".join(row.cells)[:80]
                hint = f"it has {len(row.cells)} of {len(table.head)} cells; a row needs a value of each factor"
                raise FormatError(where, f"{shown!r} does not contain its {use['name']}, so it is left out", hint=hint)
            levels[use["name"]] = _level(cell, use.get("levels") or {})
        elif cell:
            fields |= _field(use["as"], plain(cell), f"{where}, {header}")
    return ManifestEntry(**{**entry.__dict__, **fields, "levels": levels})


def _level(cell: str, names: Mapping[str, str]) -> str:
    """Return the name of a level in the mapping; `*` names all others."""
    return names.get(cell) or names.get("*") or plain(cell)


def _field(use: str, cell: str, where: str) -> dict[str, Any]:
    readers: dict[str, Any] = {
        "time": lambda: {"ended": moment(cell, where)},
        "started": lambda: {"started": moment(cell, where)},
        "block": lambda: {"block": block(cell, where)},
        "outcome": lambda: {"outcome": cell},
        "error": lambda: {"error": cell},
    }
    fields: dict[str, Any] = readers[use]() if use in readers else {}
    return fields


def _row(
    where: str, row_entry: ManifestEntry, step: str, columns: Mapping[str, Use], file: File, table: Table, row: Row
) -> Reading:
    """Return the reading of a row. The row is stored as a table, so that it can be read again like any output."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=table.delimiter)
    writer.writerows([table.head, row.cells])
    named = {header: {key: use.get(key, "") for key in ("name", "unit", "better")} for header, use in columns.items()}
    entry = ManifestEntry(**{**row_entry.__dict__, "step": step})
    outputs = {ROW: (f"{file.path}, line {row.line}", text.getvalue().encode())}
    return _measured(Reading(where, FIGURES, entry, outputs, options={"columns": named}))


def key(levels: Mapping[str, str]) -> str:
    """Return a key that does not depend on the order of levels."""
    return json.dumps(levels, sort_keys=True)
