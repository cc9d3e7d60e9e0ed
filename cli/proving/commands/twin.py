"""`proving twin`: a workload made from a production database, without its data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proving import bundle, psql, tables
from proving.errors import CliError, UsageError
from proving.session import Json, of

if TYPE_CHECKING:
    from readers.twin.model import Capture

HELP = "Capture schema, statistics and statements of a production database, and create a workload from them."
SHOWN = 20  # statements that `show` prints
File = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A file of twin capture.")]


def capture(
    ctx: typer.Context,
    dsn: Annotated[str, typer.Option(help="Database, such as postgresql://USER@HOST/DATABASE. It is not stored.")],
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False, help="File to write. It must not exist.")],
    minutes: Annotated[float, typer.Option(min=0.01, max=1440, help="Time between the two snapshots.")] = 15,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SCHEMA.TABLE.COLUMN", help="Column of whose values nothing is read.")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Also read the most common values, and bounds of columns of text.")
    ] = False,
    json: Json = False,
) -> None:
    """Capture a database with psql: two snapshots of pg_stat_statements, schema and statistics. Read-only."""
    session = of(ctx)
    if out.exists():
        raise UsageError(f"{out} exists already", field="--out", value=str(out), accepted="a new file")
    session.say(f"The capture takes {minutes:g} min. Between its two snapshots, no transaction is open.")
    found = psql.capture(dsn, seconds=minutes * 60, secret=secret or [], values=values)
    _write(out, found)
    session.tell({"file": str(out), "bytes": len(found)}, lambda: tables.lines(*_lines(_read(out), out)))


def script(ctx: typer.Context) -> None:
    """Print the SQL script of the capture, which a DBA can read, and run alone with psql."""
    of(ctx).out.file.write(psql.SCRIPT.read_text())


def show(ctx: typer.Context, file: File, json: Json = False) -> None:
    """Show what a captured file holds. Needs no server."""
    found = _read(file)
    rows = [
        (
            f"{each.counts.calls:,}",
            f"{each.counts.ms:,.1f}",
            f"{100 * each.counts.ms / found.ms:.1f} %",
            each.text[:200],
        )
        for each in found.statements[:SHOWN]
    ]
    head = ("calls", "ms", "of the time", "statement, or its first word where the text may hold values")
    of(ctx).tell(_summary(found), lambda: tables.below(tables.lines(*_lines(found, file)), tables.table(head, rows)))


def create(
    ctx: typer.Context,
    file: File,
    name: Annotated[str, typer.Option(help="Name of the data set and of the workload.")],
    factor: Annotated[float, typer.Option(help="Rows of the twin per row of production.")] = 1.0,
    clients: Annotated[int, typer.Option(min=1, help="Clients of the load.")] = 8,
    jobs: Annotated[int, typer.Option(min=1, help="Threads of pgbench.")] = 2,
    seconds: Annotated[int, typer.Option(min=1, help="Duration of the load.")] = 60,
    pace: Annotated[str, typer.Option(help="closed, or production: as many calls per second as there.")] = "closed",
    without: Annotated[list[str] | None, typer.Option(metavar="QUERYID", help="Statement to leave out.")] = None,
    json: Json = False,
) -> None:
    """Create a data set and a workload from a captured file. Needs the permission to run commands."""
    session = of(ctx)
    given = {"name": name, "factor": factor, "clients": clients, "jobs": jobs, "time_s": seconds, "pace": pace}
    parts: list[tuple[str, Any]] = [(field, (None, str(value))) for field, value in given.items()]
    parts += [("without", (None, queryid)) for queryid in without or []]
    with file.open("rb") as stream:
        made = session.client.post("twins/", files=[*parts, ("file", (file.name, stream))])
    head = ("of the time", "script", "statement", "why it has none")
    rows = [
        (f"{100 * each['share']:.1f} %", each["script"], each["text"][:200], each["reason"])
        for each in made["statements"][:SHOWN]
    ]
    words = f"{name}: data set and workload created; statements with {100 * made['covered']:.1f} % of the time"
    session.tell(made, lambda: tables.below(tables.lines(words, *made["missing"]), tables.table(head, rows)))


def _write(out: Path, found: bytes) -> None:
    """Only its owner may read it. Under its name only when it is whole."""
    part = out.with_name(out.name + ".part")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        part.write_bytes(found)
        part.rename(out)
    except OSError as error:
        raise UsageError(str(error), field="--out", value=str(out), accepted="a writable file") from error
    finally:
        part.unlink(missing_ok=True)


def _read(file: Path) -> Capture:
    bundle.enable()
    from common.errors import FormatError
    from readers.twin.capture import MOST_BYTES, read_capture

    with file.open("rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    try:
        return read_capture(raw)
    except FormatError as error:
        raise CliError(f"{file}: {error.message}", field="FILE", accepted=error.hint) from error


def _summary(found: Capture) -> dict[str, Any]:
    of_columns = {
        f"{each.schema}.{each.table}.{each.column}": (bool(each.bounds), bool(each.common_values), each.secret)
        for each in found.statistics
    }
    with_text = [each for each in found.statements if " " in each.text]
    return {
        "database": found.database,
        "version": found.version,
        "bytes": found.bytes,
        "seconds": round(found.seconds, 1),
        "was_reset": found.was_reset,
        "tables": len(found.tables),
        "rows": sum(each.rows for each in found.tables),
        "columns": sum(len(each.columns) for each in found.tables),
        "columns_with_statistics": len(found.statistics),
        "columns_with_bounds": sorted(name for name, (bounds, _, _) in of_columns.items() if bounds),
        "columns_with_common_values": sorted(name for name, (_, common, _) in of_columns.items() if common),
        "secret_columns": sorted(found.secret),
        "statements": len(found.statements),
        "statements_with_text": len(with_text),
        "ms": round(found.ms, 3),
        "ms_with_text": round(sum(each.counts.ms for each in with_text), 3),
    }


def _lines(found: Capture, file: Path) -> list[str]:
    told = _summary(found)
    missing = told["columns"] - told["columns_with_statistics"]
    return [
        f"{file}, {file.stat().st_size:,} bytes: database {told['database']}, PostgreSQL {told['version'] // 10000}",
        f"schema: {tables.counted(told['tables'], 'table')}, {told['columns']:,} columns, about {told['rows']:,} rows",
        f"values of the data: bounds of {_named(told['columns_with_bounds'])}; most common values of "
        f"{_named(told['columns_with_common_values'])}",
        f"secret: {_named(told['secret_columns'])}",
        f"{missing:,} columns have no statistics: execute ANALYZE, or grant SELECT to the role" if missing else "",
        f"statements in {told['seconds']:,} s: {told['statements']:,}, {told['statements_with_text']:,} with text",
        "pg_stat_statements was reset between the snapshots: capture again" if told["was_reset"] else "",
    ]


def _named(columns: list[str]) -> str:
    return ", ".join(columns) if columns else "no column"
