"""`proving remote`: the remote servers of a host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from proving import ids, tables
from proving.errors import UsageError
from proving.session import Json, Session, of

HELP = "Add, list, check or remove remote servers: PostgreSQL that only SQL reaches, such as a managed service."
Host = Annotated[str, typer.Argument(metavar="HOST", help="Host with an agent that connects to the server.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the remote server on that host.")]


def add(
    ctx: typer.Context,
    host: Host,
    name: Name,
    address: Annotated[list[str], typer.Option(help="Host name or IP address. Repeat it for servers of one cluster.")],
    user: Annotated[str, typer.Option(help="A role that may create databases, or schemas in its database.")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the server.")] = 5432,
    database: Annotated[str, typer.Option(help="Database where sessions begin.")] = "postgres",
    use_database: Annotated[
        bool,
        typer.Option(
            "--use-database", help="Use a schema in this database, which must be empty, instead of a new one."
        ),
    ] = False,
    sslmode: Annotated[str, typer.Option(help="disable, prefer, require, verify-ca or verify-full.")] = "verify-full",
    wait_minutes: Annotated[
        int,
        typer.Option(min=0, max=10080, help="How long runs wait for parameters that you change by hand."),
    ] = 0,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CA certificate (PEM), for verify-ca and verify-full.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Client certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Key of the client certificate (PEM).")] = None,
    password_file: Annotated[
        str, typer.Option(metavar="FILE", help="File with the password in its first line; - reads standard input.")
    ] = "",
    password_from: Annotated[
        str,
        typer.Option(metavar="REFERENCE", help="file:/PATH or env:NAME on the server, read at each use."),
    ] = "",
    key_from: Annotated[
        str, typer.Option(metavar="REFERENCE", help="The same for the client key; the file may have the certificate.")
    ] = "",
    json: Json = False,
) -> None:
    """Add a remote server to a host, or change the one of that name. Requires the role admin on the host."""
    session = of(ctx)
    body: dict[str, Any] = {
        "name": name,
        "addresses": address,
        "port": port,
        "database": database,
        "use_database": use_database,
        "user": user,
        "sslmode": sslmode,
        "wait_minutes": wait_minutes,
    }
    files = {"ca_certificate": ca, "client_certificate": certificate, "client_key": key}
    body |= {field: _text(field, path) for field, path in files.items() if path}
    body |= {"password": _password(password_file)} if password_file else {}
    references = {"password_from": password_from, "client_key_from": key_from}
    body |= {field: reference for field, reference in references.items() if reference}
    _show(session, session.client.post(f"hosts/{ids.host(session.client, host)}/save-remote-server/", body))


def ls(ctx: typer.Context, host: Host, json: Json = False) -> None:
    """List the remote servers of a host."""
    session = of(ctx)
    _show(session, session.client.get(f"hosts/{ids.host(session.client, host)}/remote-servers/"))


def check(ctx: typer.Context, host: Host, name: Name, json: Json = False) -> None:
    """Connect from the host, and show version and round-trip time. Exit code 1 if this fails."""
    session = of(ctx)
    server = session.client.post(f"hosts/{ids.host(session.client, host)}/check-remote-server/", {"name": name})
    _show(session, [server])
    if server["check_error"]:
        raise typer.Exit(1)


def rm(ctx: typer.Context, host: Host, name: Name, json: Json = False) -> None:
    """Remove a remote server and its password. Queued runs on it fail when they start."""
    session = of(ctx)
    _show(session, session.client.post(f"hosts/{ids.host(session.client, host)}/remove-remote-server/", {"name": name}))


def _text(field: str, path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", field=field, value=str(path), accepted="a PEM file") from error


def _password(path: str) -> str:
    text = sys.stdin.readline() if path == "-" else _text("--password-file", Path(path))
    return text.splitlines()[0] if text else ""


def _show(session: Session, servers: list[dict[str, Any]]) -> None:
    head = ("name", "server", "role", "PostgreSQL", "round trip", "state")
    failed = [(server["name"], server["check_error"]) for server in servers if server["check_error"]]
    errors = [line for name, error in failed for line in (f"{name}: {error['message']}", error["hint"]) if line]
    rows = [_row(server) for server in servers]
    session.tell(servers, lambda: tables.below(tables.table(head, rows), tables.lines(*errors)))


def _row(server: dict[str, Any]) -> tuple[str, ...]:
    checked, error = server["checked"], server["check_error"]
    address = f"{','.join(server['addresses'])}:{server['port']}"
    trip = f"{checked['round_trip_ms']['median']:.3g} ms" if checked else ""
    state = "failed" if error else "ok" if checked else "not checked"
    return server["name"], address, server["user"], checked.get("version", ""), trip, state
