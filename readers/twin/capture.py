"""Parse the file of `proving twin capture`: schema, statistics and statements of a production database.

The file is untrusted: each value has a type and a limit. A missing or unknown field is an error."""

from __future__ import annotations

import json
from typing import Any

from common.errors import FormatError
from readers.twin.model import (
    Capture,
    Column,
    Counts,
    ForeignKey,
    Index,
    IndexColumn,
    Statement,
    Statistics,
    Table,
    Updates,
)
from readers.twin.shapes import Read, ShapeError, flag, number, one_of, optional, record, several, text, whole

SUBJECT = "capture"
MOST_BYTES = 32 << 20
MOST_LINES = 100_000
MOST = {"table": 2000, "index": 10_000, "foreign_key": 10_000, "statistics": 50_000}  # lines; as in capture.sql
LONGEST_LINE = 1 << 20
LONGEST_NAME = 63
LONGEST_TEXT = 8000
LONGEST_VALUE = 4000
MOST_COLUMNS = 1600
HINT = "create the file again with proving twin capture"


def read_capture(raw: bytes) -> Capture:
    """Parse a capture. Raises FormatError with the line, the field, and what is accepted."""
    if len(raw) > MOST_BYTES:
        raise _refused(f"the file has {len(raw):,} bytes; at most {MOST_BYTES:,} are accepted")
    lines = raw.split(b"\n")
    if len(lines) > MOST_LINES:
        raise _refused(f"the file has {len(lines):,} lines; at most {MOST_LINES:,} are accepted")
    values: dict[str, list[Any]] = {name: [] for name in _LINES}
    for line_number, line in enumerate(lines, start=1):
        if line.strip():
            name, value = _line(line, line_number)
            values[name].append(value)
    return _whole(values)


def _line(line: bytes, line_number: int) -> tuple[str, Any]:
    if len(line) > LONGEST_LINE:
        raise _refused(f"line {line_number} has {len(line):,} bytes; at most {LONGEST_LINE:,} are accepted")
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refused(f"line {line_number} is not JSON") from error
    if not isinstance(parsed, dict) or len(parsed) != 1 or next(iter(parsed)) not in _LINES:
        raise _refused(f"line {line_number} does not belong to a capture; accepted: {', '.join(_LINES)}")
    ((name, value),) = parsed.items()
    try:
        return name, _LINES[name](value)
    except ShapeError as error:
        raise _refused(f"line {line_number}: {name}{error.args[0]}") from error


def _whole(values: dict[str, list[Any]]) -> Capture:
    for name, count in {"capture": 1, "server": 1, "settings": 1, "snapshot": 2, "end": 1}.items():
        if len(values[name]) != count:
            raise _refused(f"the file has {len(values[name])} lines {name!r}, not {count}: it is not complete")
    for name, most in MOST.items():
        if len(values[name]) > most:
            raise _refused(f"the file has {len(values[name]):,} lines {name!r}; at most {most:,} are accepted")
    (server,), (first, second) = values["server"], values["snapshot"]
    if second["at"] <= first["at"]:
        raise _refused("the second snapshot is not later than the first")
    tables = {(table.schema, table.name) for table in values["table"]}
    if len(tables) != len(values["table"]):
        raise _refused("a table occurs twice")
    return Capture(
        **server,
        tables=tuple(values["table"]),
        indexes=tuple(index for index in values["index"] if (index.schema, index.table) in tables),
        foreign_keys=tuple(
            foreign_key
            for foreign_key in values["foreign_key"]
            if (foreign_key.schema, foreign_key.table) in tables
            and (foreign_key.to_schema, foreign_key.to_table) in tables
        ),
        statistics=tuple(
            statistics for statistics in values["statistics"] if (statistics.schema, statistics.table) in tables
        ),
        seconds=second["at"] - first["at"],
        was_reset=second["reset"] != first["reset"],
        statements=tuple(_statements(dict(values["before"]), values["after"])),
        updates=_updates(values["changes"]),
        settings={name: setting for name, (setting, _) in values["settings"][0].items() if setting is not None},
    )


def _statements(before: dict[str, Counts], after: list[tuple[str, Counts, str]]) -> list[Statement]:
    """Return the statements with the counts that each added, longest total time first. A smaller count than before
    means that the statistics were reset in between."""
    statements = []
    for queryid, counts, query in after:
        old = before.get(queryid, Counts())
        growth = {name: getattr(counts, name) - getattr(old, name) for name in Counts.__dataclass_fields__}
        added = counts if min(growth.values()) < 0 else Counts(**growth)
        if added.calls:
            statements.append(Statement(queryid, query, added))
    return sorted(statements, key=lambda each: -each.counts.ms)


def _updates(changes: list[tuple[int, tuple[str, str], int, int]]) -> dict[tuple[str, str], Updates]:
    """Of each table with updates between the snapshots."""
    counts: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
    for snapshot, table, updated, hot in changes:
        counts.setdefault(table, {})[snapshot] = (updated, hot)
    between = {}
    for table, by_snapshot in counts.items():
        before, after = by_snapshot.get(1, (0, 0)), by_snapshot.get(2, (0, 0))
        updated, hot = after[0] - before[0], after[1] - before[1]
        if updated > 0 and 0 <= hot <= updated:
            between[table] = Updates(updated, hot)
    return between


def _refused(message: str) -> FormatError:
    return FormatError(SUBJECT, message, hint=HINT)


_NAME = text(LONGEST_NAME, 1)
_NAMES = several(_NAME, 64)
_ONE = text(1, 1)
_COLUMN: dict[str, Read] = {
    "name": _NAME,
    "type": text(200, 1),
    "base": _NAME,
    "type_schema": _NAME,
    "kind": _ONE,
    "category": _ONE,
    "not_null": flag,
    "default": one_of("identity", "generated", "sequence", "other", ""),
    "labels": several(_NAME),
}
_INDEX_COLUMN = {"name": optional(_NAME), "descending": flag, "nulls_first": flag, "opclass": optional(_NAME)}
_TABLE: dict[str, Read] = {
    "schema": _NAME,
    "name": _NAME,
    "partitioned": flag,
    "rows": whole,
    "pages": whole,
    "bytes": whole,
    "columns": several(lambda value: Column(**record(value, _COLUMN)), MOST_COLUMNS),
}
_INDEX: dict[str, Read] = {
    "schema": _NAME,
    "table": _NAME,
    "name": _NAME,
    "method": _NAME,
    "unique": flag,
    "primary": flag,
    "bytes": whole,
    "expressions": flag,
    "partial": flag,
    "keys": whole,
    "columns": several(lambda value: IndexColumn(**record(value, _INDEX_COLUMN)), 64),
}
_FOREIGN_KEY: dict[str, Read] = {
    "schema": _NAME,
    "table": _NAME,
    "columns": _NAMES,
    "to_schema": _NAME,
    "to_table": _NAME,
    "to_columns": _NAMES,
    "on_delete": _ONE,
}
_STATISTICS: dict[str, Read] = {
    "schema": _NAME,
    "table": _NAME,
    "column": _NAME,
    "null_frac": number(0, 1),
    "avg_width": whole,
    "n_distinct": number(-1),
    "correlation": optional(number(-1.001, 1.001)),
    "secret": flag,
    "frequencies": several(number(0, 1)),
    "common_values": several(text(LONGEST_VALUE)),
    "bounds": several(text(LONGEST_VALUE), 64),
}
_SERVER: dict[str, Read] = {
    "database": _NAME,
    "version": whole,
    "encoding": _NAME,
    "collation": text(200),
    "bytes": whole,
    "standby": flag,
    "values": flag,
    "secret": several(text(200), 1000),
}


def _snapshot(value: Any) -> dict[str, Any]:
    return record(value, {"number": number(1, 2), "at": number(), "reset": optional(number())})


def _server(value: Any) -> dict[str, Any]:
    server = record(value, _SERVER)
    return {name: server[name] for name in ("database", "version", "bytes", "secret")}


def _settings(value: Any) -> dict[str, tuple[str | None, ...]]:
    if not isinstance(value, dict) or len(value) > 1000:
        raise ShapeError(": at most 1,000 settings are accepted")
    setting_and_unit = several(optional(text(200)), 2)
    return {_NAME(name): setting_and_unit(each) for name, each in value.items()}


def _counts(value: Any, more: int) -> tuple[str, Counts, str]:
    if not isinstance(value, list) or len(value) != 9 + more:
        raise ShapeError(f": a list of {9 + more} values is accepted")
    queryid, ms = text(30, 1)(value[0]), number()(value[2])
    calls, rows, *blocks = (whole(each) for each in (value[1], *value[3:9]))
    query = optional(text(LONGEST_TEXT))(value[9]) if more else ""
    return queryid, Counts(calls, ms, rows, *blocks), query or ""


def _before(value: Any) -> tuple[str, Counts]:
    queryid, counts, _ = _counts(value, 0)
    return queryid, counts


def _changes(value: Any) -> tuple[int, tuple[str, str], int, int]:
    if not isinstance(value, list) or len(value) != 5:
        raise ShapeError(": a list of 5 values is accepted")
    return int(number(1, 2)(value[2])), (_NAME(value[0]), _NAME(value[1])), whole(value[3]), whole(value[4])


_LINES: dict[str, Read] = {
    "capture": number(1, 1),
    "server": _server,
    "settings": _settings,
    "table": lambda value: Table(**record(value, _TABLE)),
    "index": lambda value: Index(**record(value, _INDEX)),
    "foreign_key": lambda value: ForeignKey(**record(value, _FOREIGN_KEY)),
    "statistics": lambda value: Statistics(**record(value, _STATISTICS)),
    "snapshot": _snapshot,
    "before": _before,
    "changes": _changes,
    "after": lambda value: _counts(value, 1),
    "end": number(1, 1),
}
