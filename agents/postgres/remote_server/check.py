"""A check of a remote server, before a run uses it. Changes nothing there."""

from __future__ import annotations

import secrets
import statistics
import tempfile
from pathlib import Path

from ...errors import Unplannable
from ...host import owned, policy
from ...host.system import System
from ...records.spool import Record
from ...wire.schema import check
from . import settings
from .server import CONNECTION, RemoteServer, client_version, own_account, write_access

SCHEMA = {"type": "object", "properties": CONNECTION, "required": list(CONNECTION), "additionalProperties": False}
_EXTENSIONS = """
select json_build_object('installed', (select coalesce(json_agg(extname order by extname), '[]') from pg_extension),
  'available', (select coalesce(json_agg(name order by name), '[]') from pg_available_extensions
    where name in ('pg_stat_statements', 'pg_buffercache', 'pg_prewarm')))
"""
_NAMES = "select coalesce(json_agg(name order by name), '[]') from pg_settings"
_TLS = "select to_json(coalesce((select version from pg_stat_ssl where pid = pg_backend_pid() and ssl), ''))"
IDENTITY = ("version", "system_identifier", "timeline", "started", "standby", "address", "superuser", "createdb")


def read_facts(system: System, connection: Record, bin_dir: str, access: Record) -> Record:
    """The answer of the verb `remote` in protocol.py. Unplannable or HostFailure if the server cannot be used."""
    check(SCHEMA, connection, "server")
    policy.permit(policy.read(system), policy.REMOTE, "server")
    own = own_account(system, bin_dir, "")
    room = Path(tempfile.gettempdir()) / f"proving-ground-remote-{secrets.token_hex(8)}"
    owned.make_directory(room, own.owner)
    try:
        major = client_version(system, bin_dir, own)
        server = RemoteServer(system, connection, bin_dir, own, write_access(room, access, major, own.owner))
        return {**_facts_of(server), "client": major}
    finally:
        owned.remove_tree(room)


def _facts_of(server: RemoteServer) -> Record:
    identity = server.identify()
    names = server.sql(_NAMES, "postgres")
    rows, privileges = settings.rows(server, names), settings.privileges(server, names, identity["superuser"])
    settable: dict[str, list[str]] = {settings.SESSION: [], settings.SYSTEM: []}
    for name in names:
        scope = _scope(name, rows[name], privileges, server)
        if scope:
            settable[scope].append(name)
    times = server.round_trips_ms()
    return {
        **{name: identity[name] for name in IDENTITY},
        "tls": server.sql(_TLS, "postgres"),
        "settable": settable,
        "restart": [name for name in names if rows[name]["context"] in ("postmaster", "internal")],
        "extensions": server.sql(_EXTENSIONS, "postgres"),
        "round_trip_ms": {"min": times[0], "median": statistics.median(times)},
    }


def _scope(name: str, row: Record, privileges: Record, server: RemoteServer) -> str:
    try:
        return settings.scope(name, "", row, privileges, server.user, server.major)
    except Unplannable:
        return ""
