"""`proving parse`: the figures in the output of a tool, without a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from common.errors import FormatError
from proving import tables
from proving.errors import CliError, Code
from proving.session import Json, of

MOST_BYTES = 1 << 30
MOST_ROWS = 60


def parse(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Outputs of tools; - is standard input.")],
    kind: Annotated[
        str, typer.Option("--as", metavar="KIND", help="Kind of the files. Default: recognised from the contents.")
    ] = "",
    json: Json = False,
) -> None:
    """Print the figures in outputs of pgbench, fio, sysbench, EXPLAIN and other tools. Needs no server."""
    session = of(ctx)
    understood, failed = [], 0
    for name in files:
        try:
            understood.append(understand(name, kind))
        except CliError as error:
            failed += 1
            session.complain(error)
    session.tell(understood, lambda: tables.below(*(_shown(one) for one in understood)))
    raise typer.Exit(Code.FAILED if failed else Code.OK)


def understand(name: str, kind: str = "") -> dict[str, Any]:
    """File, kind, title and result of one output. Raises CliError, with the file in its message."""
    from readers.formats import FORMATS
    from readers.guess import as_json, read

    raw = content(name)
    try:
        kind, result = read(raw, kind)
    except FormatError as error:
        raise CliError(f"{name}: {error.subject}: {error.message}", field="FILE", accepted=error.hint) from error
    return {"file": name, "kind": kind, "title": FORMATS[kind].title, "result": as_json(result)}


def content(name: str) -> bytes:
    """Return the bytes of a file, or of standard input. CliError if it cannot be read or is too large."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CliError(f"{name}: {error.strerror}", field="FILE", value=name) from error
    if len(raw) > MOST_BYTES:
        raise CliError(f"{name}: the file is larger than {MOST_BYTES >> 30} GiB", field="FILE", accepted="a part of it")
    return raw


def _shown(one: dict[str, Any]) -> Any:
    rows = list(_rows(one["result"]))
    more = [f"{len(rows) - MOST_ROWS} more figures: use --json"] if len(rows) > MOST_ROWS else []
    title = f"{one['file']}: {one['kind']}, {one['title']}"
    return tables.below(tables.lines(title), tables.table(("figure", "value"), rows[:MOST_ROWS]), tables.lines(*more))


def _rows(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value with its path, such as jobs.0.read.iops."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in pairs:
            yield from _rows(each, f"{path}.{name}" if path else str(name))
    else:
        yield path, str(value)
