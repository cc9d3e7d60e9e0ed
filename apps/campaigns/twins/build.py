"""From a capture to a twin: steps of its data set, scripts of its workload, and what is left out. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apps.campaigns.twins import calibration
from apps.campaigns.twins import schema as schemas
from apps.campaigns.twins.existing import preparation, with_existing_rows
from apps.campaigns.twins.statements.parameters import Parameters
from apps.campaigns.twins.statements.parsing import PLACEHOLDER, LeftOutError, Parsed
from apps.campaigns.twins.statements.transactions import grouped
from readers.twin.model import Capture, Statement

MOST_PARSED = 300
MOST_CHARACTERS = 500_000  # of the statements that are parsed
MOST_SCRIPTS = 40  # a run reports 50 statements
ENOUGH = 0.995  # of production's time: statements that take less are left out
LONGEST_SCRIPT = 60_000
MOST_WEIGHT = 1_000_000


@dataclass(frozen=True)
class StatementRow:
    """A statement of production. `script` is its name in the twin; if it is left out, "", with the `reason`.
    `transaction`: the script of several statements that it is part of, or ""."""

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
    transaction: str = ""


@dataclass(frozen=True)
class Built:
    """`steps` of a data set of kind sql, `scripts` of a workload of kind pgbench. `missing`: parts of the schema that
    the twin lacks. `calls_per_s`: the rate of the scripts in production. `preparation`: on existing data, SQL that is
    executed before the scripts; the data set has no steps then."""

    steps: list[dict[str, Any]]
    scripts: list[dict[str, Any]]
    rows: list[StatementRow]
    missing: list[str]
    calls_per_s: float
    preparation: str = ""

    @property
    def covered(self) -> float:
        """The share of production's execution time in statements of the twin."""
        return sum(each.share for each in self.rows if each.script)


def build(
    capture: Capture,
    factor: float = 1.0,
    without: Sequence[str] = (),
    transactions: Sequence[Sequence[str]] = (),
    existing: bool = False,
) -> Built:
    """A twin with `factor` times the rows of production. `without`: query ids of statements to leave out.
    `transactions`: lists of the query ids that are executed together. `existing`: it runs on rows that exist already,
    such as a copy of production. PlanError if that is impossible."""
    schema = schemas.schema(capture, factor)
    if existing:
        schema = with_existing_rows(schema)
    scripts: list[dict[str, Any]] = []
    made: list[Statement] = []
    choices: list[tuple[calibration.CalibratedStatement, str, Statement]] = []
    rows: list[StatementRow] = []
    in_transactions = {queryid for each in transactions for queryid in each}
    cumulative, characters = 0.0, 0
    for statement in capture.statements:
        share = capture.share(statement)
        name, reason = f"s{len(scripts) + 1:02}", ""
        characters += len(statement.text)
        try:
            _check_text(statement)
            is_parsed = len(rows) < MOST_PARSED and characters <= MOST_CHARACTERS
            text, sql, choice = script(statement, schema, factor, name) if is_parsed else ("", "", None)
            _check_needed(statement, text, scripts, cumulative, without, in_transactions)
            if choice:
                choices.append((choice, sql, statement))
            scripts.append({"name": name, "weight": statement.counts.calls, "text": text})
            made.append(statement)
        except LeftOutError as error:
            name, reason = "", str(error)
        cumulative += share
        rows.append(_row(name, reason, statement, share))
    scripts = grouped(scripts, made, transactions, {row.queryid: row.reason for row in rows})
    rate, rows = sum(each["weight"] for each in scripts) / capture.seconds, _named(rows, transactions)
    if existing:
        parsed = [Parsed(statement.text, schema) for statement in made]
        prepared = preparation(schema, parsed, [each["text"] for each in scripts], [choice for choice, *_ in choices])
        return Built([], _weighed(scripts), rows, [], rate, prepared)
    steps = [*schemas.steps(schema), *calibration.steps(choices, capture.settings)]
    return Built(steps, _weighed(scripts), rows, schema.missing, rate)


def _named(rows: Sequence[StatementRow], transactions: Sequence[Sequence[str]]) -> list[StatementRow]:
    """The rows, with the script of their transaction."""
    names = {queryid: f"t{n}" for n, each in enumerate(transactions, start=1) for queryid in each}
    return [replace(each, transaction=names.get(each.queryid, "")) for each in rows]


def _check_text(statement: Statement) -> None:
    if not statement.text:
        raise LeftOutError("it is not among the 1,000 statements with the most time since the last reset")
    if " " not in statement.text.strip():
        raise LeftOutError("it does not read or write rows, or its text may hold values")


def _check_needed(
    statement: Statement,
    text: str,
    scripts: Sequence[Any],
    cumulative: float,
    without: Sequence[str],
    in_transactions: Collection[str],
) -> None:
    is_small = cumulative >= ENOUGH and statement.queryid not in in_transactions
    if not text or len(scripts) >= MOST_SCRIPTS or is_small:
        raise LeftOutError("the other statements have nearly all of the time")
    if statement.queryid in without:
        raise LeftOutError("it is left out on request")


def script(
    statement: Statement, schema: schemas.Schema, factor: float, name: str
) -> tuple[str, str, calibration.CalibratedStatement | None]:
    """The script of pgbench, its statement, and what of it is calibrated. LeftOutError if a table, or the values of a
    parameter, are unknown."""
    try:
        parsed = Parsed(statement.text, schema)
        _check_deletes(parsed, schema)
        _check_columns(parsed)
        parameters = Parameters(parsed, statement.counts, factor, name)
    except RecursionError as error:
        raise LeftOutError("it is nested too deeply") from error
    sql = PLACEHOLDER.sub(lambda match: _typed(match[1], parameters.sql[int(match[2])]), parsed.text)
    # pg_stat_statements keeps the comment, which identifies the statement of production.
    marked = re.sub(r"^(\W*\w+)", rf"\1 /* {name} */", sql, count=1)
    text = "\n".join([*parameters.script.lines, f"{marked};"]) + "\n"
    if len(text) > LONGEST_SCRIPT:
        raise LeftOutError(f"its script would have {len(text):,} characters")
    return text, sql, parameters.choice if parameters.choice.is_used else None


def _typed(type_name: str | None, value: str) -> str:
    """The value instead of a constant such as date '2025-01-01'."""
    return f"({value})::{type_name}" if type_name and type_name.lower() != "interval" else value


def _check_deletes(parsed: Parsed, schema: schemas.Schema) -> None:
    """Rows that others refer to cannot be deleted. In production, those others were deleted first."""
    for delete in parsed.deletes():
        blocking = [
            key for key in schema.foreign_keys if (key.to_schema, key.to_table) == delete and key.on_delete in "ar"
        ]
        if blocking:
            raise LeftOutError(f"rows of {blocking[0].table} refer to the rows that it deletes")


def _check_columns(parsed: Parsed) -> None:
    unknown = next((of for of in parsed.columns() if not of.supported), None)
    if unknown is not None:
        raise LeftOutError(f"values of type {unknown.column.type} cannot be generated")


def _row(name: str, reason: str, statement: Statement, share: float) -> StatementRow:
    counts = asdict(statement.counts)
    temp = counts.pop("temp_read") + counts.pop("temp_written")
    return StatementRow(statement.queryid, name, reason, statement.text, share=share, temp=temp, **counts)


def _weighed(scripts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    most = max((each["weight"] for each in scripts), default=1)
    scale = min(1.0, MOST_WEIGHT / most)
    return [{**each, "weight": max(1, round(each["weight"] * scale))} for each in scripts]
