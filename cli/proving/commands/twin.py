"""`proving twin`: create a data set and a workload from the statistics of a production database, without its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import FormatError
from common.wording import counted
from proving import psql, tables
from proving.errors import CliError, UsageError
from proving.session import Json, Session, of

if TYPE_CHECKING:
    from readers.twin.model import Capture

HELP = "Capture statistics and statements of a production database, and create a data set and a workload from them."
SHOWN = 20  # statements that `show` prints
File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A file that `proving twin capture` wrote.")
]


def capture(
    ctx: typer.Context,
    dsn: Annotated[str, typer.Option(help="Database, such as postgresql://USER@HOST/DATABASE. It is not stored.")],
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False, help="File to write. It must not exist.")],
    minutes: Annotated[float, typer.Option(min=0.01, max=1440, help="Time between the two snapshots.")] = 15,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SCHEMA.TABLE.COLUMN", help="Column whose values are not read.")
    ] = None,
    values: Annotated[
        bool,
        typer.Option("--values", help="Also read the most common values, and the histogram bounds of text columns."),
    ] = False,
    json: Json = False,
) -> None:
    """Capture a database with psql: two snapshots of pg_stat_statements, schema and statistics. Read-only."""
    session = of(ctx)
    if out.exists():
        raise UsageError(f"{out} exists already", field="--out", value=str(out), accepted="a new file")
    with _new_file(out) as file:
        session.say(f"The capture takes {minutes:g} min. Between its two snapshots, no transaction is open.")
        raw = psql.capture(dsn, seconds=minutes * 60, secret=secret or [], values=values)
        file.write_bytes(raw)
    session.tell({"file": str(out), "bytes": len(raw)}, lambda: tables.lines(*_lines(_read(out), out)))


def script(ctx: typer.Context) -> None:
    """Print the SQL script of the capture. A DBA can read it and run it with psql."""
    of(ctx).out.file.write(psql.SCRIPT.read_text())


def show(ctx: typer.Context, file: File, json: Json = False) -> None:
    """Show what a captured file contains. Needs no server."""
    captured = _read(file)
    rows = [
        (
            statement.queryid,
            f"{statement.counts.calls:,}",
            f"{statement.counts.ms:,.1f}",
            f"{100 * captured.share(statement):.1f} %",
            statement.text[:200],
        )
        for statement in captured.statements[:SHOWN]
    ]
    head = ("query id", "calls", "ms", "share of time", "statement; only its first word if the text may hold values")
    of(ctx).tell(
        _summary(captured), lambda: tables.below(tables.lines(*_lines(captured, file)), tables.table(head, rows))
    )


def create(
    ctx: typer.Context,
    file: File,
    name: Annotated[str, typer.Option(help="Name of the data set and of the workload.")],
    factor: Annotated[float, typer.Option(help="Rows of the twin per row of production.")] = 1.0,
    clients: Annotated[int, typer.Option(min=1, help="Clients of the load.")] = 8,
    jobs: Annotated[int, typer.Option(min=1, help="Threads of pgbench.")] = 2,
    seconds: Annotated[int, typer.Option(min=1, help="Duration of the load.")] = 60,
    pace: Annotated[str, typer.Option(help="closed, or production: at the call rate of production.")] = "closed",
    without: Annotated[list[str] | None, typer.Option(metavar="QUERYID", help="Statement to leave out.")] = None,
    transaction: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERYID,QUERYID", help="Statements of one transaction, in order. Can be repeated."),
    ] = None,
    data: Annotated[
        str,
        typer.Option(metavar="DATASET", help="Existing data set, such as a copy of production. No rows are generated."),
    ] = "",
    json: Json = False,
) -> None:
    """Create a data set and a workload from a captured file. Needs the permission to run commands."""
    session = of(ctx)
    fields = {"name": name, "factor": factor, "clients": clients, "jobs": jobs, "time_s": seconds, "pace": pace}
    parts: list[tuple[str, Any]] = [(field, (None, str(value))) for field, value in fields.items()]
    parts += [("without", (None, queryid)) for queryid in without or []]
    parts += [("transactions", (None, ids)) for ids in transaction or []]
    if data:
        parts.append(("dataset", (None, str(_newest(session, data)))))
    with file.open("rb") as stream:
        twin = session.client.post("twins/", files=[*parts, ("file", (file.name, stream))])
    head = ("share of time", "script", "statement", "reason for leaving it out")
    rows = [
        (f"{100 * statement['share']:.1f} %", statement["script"], statement["text"][:200], statement["reason"])
        for statement in twin["statements"][:SHOWN]
    ]
    made = f"workload created for the data set {data}" if data else "data set and workload created"
    summary = f"{name}: {made}, with statements that have {100 * twin['covered']:.1f} % of production's time."
    session.tell(twin, lambda: tables.below(tables.lines(summary, *twin["missing"]), tables.table(head, rows)))


def _newest(session: Session, name: str) -> int:
    """The id of the newest revision of a data set."""
    rows = session.client.get("datasets/", name=name, ordering="-revision")["results"]
    if not rows:
        raise CliError(f"there is no data set {name}", field="--data", accepted="the name of a data set")
    return int(rows[0]["id"])


@contextmanager
def _new_file(out: Path) -> Iterator[Path]:
    """A file that only its owner may read, which gets the name `out` at the end of the block."""
    part = out.with_name(out.name + ".part")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600, exist_ok=False)
        yield part
        part.rename(out)
    except OSError as error:
        raise UsageError(str(error), field="--out", value=str(out), accepted="a writable file") from error
    finally:
        part.unlink(missing_ok=True)


def _read(file: Path) -> Capture:
    from readers.twin.capture import MOST_BYTES, read_capture

    with file.open("rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    try:
        return read_capture(raw)
    except FormatError as error:
        raise CliError(f"{file}: {error.message}", field="FILE", accepted=error.hint) from error


def _summary(captured: Capture) -> dict[str, Any]:
    from readers.twin.equal_calls import equal_calls

    names = [
        (f"{statistics.schema}.{statistics.table}.{statistics.column}", statistics)
        for statistics in captured.statistics
    ]
    with_text = [statement for statement in captured.statements if " " in statement.text]
    return {
        "database": captured.database,
        "version": captured.version,
        "bytes": captured.bytes,
        "seconds": round(captured.seconds, 1),
        "was_reset": captured.was_reset,
        "tables": len(captured.tables),
        "rows": sum(table.rows for table in captured.tables),
        "columns": sum(len(table.columns) for table in captured.tables),
        "columns_with_statistics": len(captured.statistics),
        "columns_with_bounds": sorted(name for name, each in names if each.bounds),
        "columns_with_common_values": sorted(name for name, each in names if each.common_values),
        "secret_columns": sorted(captured.secret),
        "statements": len(captured.statements),
        "statements_with_text": len(with_text),
        "equal_calls": [[statement.queryid for statement in group] for group in equal_calls(captured)],
        "ms": round(captured.ms, 3),
        "ms_with_text": round(sum(statement.counts.ms for statement in with_text), 3),
    }


def _lines(captured: Capture, file: Path) -> list[str]:
    about = _summary(captured)
    missing = about["columns"] - about["columns_with_statistics"]
    bounds, values = _named(about["columns_with_bounds"]), _named(about["columns_with_common_values"])
    schema = f"{counted(about['tables'], 'table')}, {counted(about['columns'], 'column')}"
    return [
        f"{file}, {file.stat().st_size:,} bytes: database {about['database']}, PostgreSQL {about['version'] // 10000}",
        f"schema: {schema}, about {about['rows']:,} rows",
        f"values of the data: histogram bounds of {bounds}; most common values of {values}",
        f"secret: {_named(about['secret_columns'])}",
        f"{missing:,} columns have no statistics: execute ANALYZE, or grant SELECT to the role" if missing else "",
        f"statements in {about['seconds']:,} s: {about['statements']:,}, {about['statements_with_text']:,} with text",
        "pg_stat_statements was reset between the snapshots: capture again" if about["was_reset"] else "",
        *(f"equal calls, perhaps one transaction: --transaction {','.join(each)}" for each in about["equal_calls"]),
    ]


def _named(columns: list[str]) -> str:
    return ", ".join(columns) or "no column"
