"""What an admin wants to know of a server that only SQL reaches, before a run uses it. Reads only."""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path
from typing import Any

from ...errors import HostFailure, Unplannable
from ...host import owned, policy
from ...host.system import System
from ...records.processes import environment
from ...records.spool import Record
from ...wire.schema import check
from . import settings
from .server import PLACE, RemoteServer, client_version, own_account, write_access

SCHEMA = {"type": "object", "properties": PLACE, "required": list(PLACE), "additionalProperties": False}
ROUND_TRIPS = 21  # the first includes what a new session does once
_EXTENSIONS = """
select json_build_object('installed', (select coalesce(json_agg(extname order by extname), '[]') from pg_extension),
  'available', (select coalesce(json_agg(name order by name), '[]') from pg_available_extensions
    where name in ('pg_stat_statements', 'pg_buffercache', 'pg_prewarm')))
"""
_NAMES = "select coalesce(json_agg(name order by name), '[]') from pg_settings"
_TLS = "select to_json(coalesce((select version from pg_stat_ssl where pid = pg_backend_pid() and ssl), ''))"


def look(system: System, place: Record, bin_dir: str, access: Record) -> Record:
    """The answer of the verb `remote` in protocol.py. Unplannable or HostFailure when the server cannot be used."""
    check(SCHEMA, place, "server")
    policy.permit(policy.read(system), policy.REMOTE, "server")
    own = own_account(system, bin_dir, "")
    room = Path(tempfile.gettempdir()) / f"proving-ground-remote-{secrets.token_hex(8)}"
    owned.make_directory(room, own.owner)
    try:
        major = client_version(system, bin_dir, own)
        server = RemoteServer(system, place, bin_dir, own, write_access(room, access, major, own.owner))
        return {**_look(server, place), "client": major, "round_trip_ms": _round_trips(system, server)}
    finally:
        owned.remove_tree(room)


def _look(server: RemoteServer, place: Record) -> Record:
    found = server.identify()
    names = server.sql(_NAMES, "postgres")
    rows, may = settings.rows(server, names), settings.privileges(server, names, found["superuser"])
    scopes: dict[str, list[str]] = {settings.SESSION: [], settings.SYSTEM: []}
    for name in names:
        how = _scope(name, rows[name], may, server)
        if how:
            scopes[how].append(name)
    kept = ("version", "system_identifier", "timeline", "started", "standby", "address", "superuser", "createdb")
    return {
        **{name: found[name] for name in kept},
        "tls": server.sql(_TLS, "postgres"),
        "settable": scopes,
        "restart": [name for name in names if rows[name]["context"] in ("postmaster", "internal")],
        "extensions": server.sql(_EXTENSIONS, "postgres"),
    }


def _scope(name: str, row: Record, may: Record, server: RemoteServer) -> str:
    try:
        return settings.scope(name, "", row, may, server.user, server.major)
    except Unplannable:
        return ""


def _round_trips(system: System, server: RemoteServer) -> dict[str, float]:
    """{"min", "median"} of an empty query in one session, as psql times it."""
    argv, own = [server.tool("psql"), "-X", "-q", "-A", "-t", "-w", "-f", "-"], server.account
    script = "\\timing on\n" + "select;\n" * ROUND_TRIPS
    env = environment("", server.env)
    shown = system.run(argv, env=env, user=own.user, group=own.group, stdin=script, limit_s=60.0)
    times = sorted(float(text) for text in re.findall(r"^Time: ([0-9.]+) ms", shown.stdout, re.MULTILINE)[1:])
    if shown.code or not times:
        raise HostFailure(f"{server.label} ended the session: {shown.stderr.strip()}", "check the connection again")
    middle: Any = times[len(times) // 2]
    return {"min": times[0], "median": middle}
