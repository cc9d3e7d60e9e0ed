"""From a capture to a twin: steps of its data set, scripts of its workload, and what of production it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from apps.campaigns.twins import schema as made
from apps.campaigns.twins.parameters import Parameters
from apps.campaigns.twins.parsing import PLACEHOLDER, CannotMakeError, Parsed
from readers.twin.model import Capture, Statement

MOST_PARSED = 300
MOST_SCRIPTS = 40  # a run reports 50 statements
ENOUGH = 0.995  # of the time of all statements that can be made
LONGEST_SCRIPT = 60_000
MOST_WEIGHT = 1_000_000


@dataclass(frozen=True)
class Row:
    """A statement of production. `script` is its name in the twin; "" with the `reason` where it has none."""

    queryid: str
    script: str
    reason: str
    text: str
    calls: int
    ms: float
    rows: int
    hit: int
    read: int
    temp: int
    wal_bytes: int
    share: float


@dataclass(frozen=True)
class Built:
    """`steps` of a data set of kind sql, `scripts` of a workload of kind pgbench. `missing`: what of the schema is not
    made."""

    steps: list[dict[str, Any]]
    scripts: list[dict[str, Any]]
    rows: list[Row]
    missing: list[str]
    seconds: float

    @property
    def covered(self) -> float:
        """The share of production's execution time in statements of the twin."""
        return sum(each.share for each in self.rows if each.script)

    @property
    def calls_per_s(self) -> float:
        """Of the statements of the twin, in production."""
        return sum(each.calls for each in self.rows if each.script) / self.seconds


def build(capture: Capture, factor: float = 1.0, without: Sequence[str] = ()) -> Built:
    """A twin with `factor` times the rows of production. `without`: query ids of statements to leave out."""
    schema = made.schema(capture, factor)
    scripts: list[dict[str, Any]] = []
    rows: list[Row] = []
    done = 0.0
    for statement in capture.statements:
        share = statement.counts.ms / capture.ms if capture.ms else 0.0
        name, reason = f"s{len(scripts) + 1:02}", ""
        try:
            _check_text(statement)
            text = script(statement, schema, factor, name) if len(rows) < MOST_PARSED else ""
            _check_wanted(statement, text, scripts, done, without)
            scripts.append({"name": name, "weight": statement.counts.calls, "text": text})
        except CannotMakeError as error:
            name, reason = "", str(error)
        done += share
        rows.append(_row(name, reason, statement, share))
    return Built(made.steps(schema), _weighed(scripts), rows, schema.missing, capture.seconds)


def _check_text(statement: Statement) -> None:
    if not statement.text:
        raise CannotMakeError("it is not among the 1,000 statements with the most time")
    if " " not in statement.text.strip():
        raise CannotMakeError("it does not read or write rows, or its text may hold values")


def _check_wanted(statement: Statement, text: str, scripts: Sequence[Any], done: float, without: Sequence[str]) -> None:
    if not text or len(scripts) >= MOST_SCRIPTS or done >= ENOUGH:
        raise CannotMakeError("other statements take nearly all of the time")
    if statement.queryid in without:
        raise CannotMakeError("it is left out on request")


def script(statement: Statement, schema: made.Schema, factor: float, name: str) -> str:
    """The script of pgbench. CannotMakeError where a value or a table is unknown."""
    parsed = Parsed(statement.text, schema)
    _check_deletes(parsed, schema)
    _check_columns(parsed)
    given = Parameters(parsed, statement.counts, factor)
    sql = PLACEHOLDER.sub(lambda found: given.sql[int(found[1])], parsed.text)
    # The comment stays in pg_stat_statements, and tells which statement of production this is.
    marked = re.sub(r"^(\W*\w+)", rf"\1 /* {name} */", sql, count=1)
    text = "\n".join([*given.script.lines, f"{marked};"]) + "\n"
    if len(text) > LONGEST_SCRIPT:
        raise CannotMakeError(f"its script would have {len(text):,} characters")
    return text


def _check_deletes(parsed: Parsed, schema: made.Schema) -> None:
    """A row that others refer to cannot be deleted; in production they were deleted before."""
    for delete in parsed.deletes():
        blocking = [
            key for key in schema.foreign_keys if (key.to_schema, key.to_table) == delete and key.on_delete in "ar"
        ]
        if blocking:
            raise CannotMakeError(f"rows of {blocking[0].table} refer to the rows that it deletes")


def _check_columns(parsed: Parsed) -> None:
    unknown = next((of for of in parsed.columns() if not of.known), None)
    if unknown is not None:
        raise CannotMakeError(f"values of type {unknown.column.type} cannot be made")


def _row(name: str, reason: str, statement: Statement, share: float) -> Row:
    counts = asdict(statement.counts)
    temp = counts.pop("temp_read") + counts.pop("temp_written")
    return Row(statement.queryid, name, reason, statement.text, share=share, temp=temp, **counts)


def _weighed(scripts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    most = max((each["weight"] for each in scripts), default=1)
    scale = min(1.0, MOST_WEIGHT / most)
    return [{**each, "weight": max(1, round(each["weight"] * scale))} for each in scripts]
