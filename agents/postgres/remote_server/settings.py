"""Parameters of a remote server: which ones the role can set, how they are set, and the proof that they are in effect.

`session` parameters are set for the load's role in the run's database (ALTER ROLE ... IN DATABASE ... SET), and are
dropped with it. In an allowed database its sessions begin with them (PGOPTIONS).
`system` parameters are set for the whole server (ALTER SYSTEM and a reload). `by hand` parameters are
changed by a user while the run waits: see by_hand.py.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ...errors import HostFailure, Unplannable
from ...records.spool import Record
from ...settings.base import Proof
from ...settings.postgresql import normalise, same
from ..guest import quoted
from .server import RemoteServer

SESSION, SYSTEM, BY_HAND = "session", "system", "by hand"
GRANTS = 15  # the first version that can grant parameters
LISTS = ("search_path", "temp_tablespaces")  # each element is quoted
_ROW = """json_build_object('setting', setting, 'unit', unit, 'vartype', vartype, 'source', source,
  'sourcefile', sourcefile, 'context', context, 'pending_restart', pending_restart, 'show', current_setting(name))"""
# The names were checked against the schema's pattern: no quote can be in them.
_ROWS = "select coalesce(json_object_agg(name, {row}), '{{}}') from pg_settings where name in ({names})"
_PRIVILEGES = """
select json_object_agg(name, json_build_object('set', has_parameter_privilege(name, 'set'),
  'alter', has_parameter_privilege(name, 'alter system'))) from pg_settings where name in ({names})
"""
_FUNCTIONS = """
select json_build_object('reload', has_function_privilege('pg_reload_conf()', 'execute'),
  'files', has_table_privilege('pg_file_settings', 'select')
    and has_function_privilege('pg_show_all_file_settings()', 'execute'))
"""
_FILE = """
select coalesce(json_agg(json_build_object('file', sourcefile, 'name', name, 'setting', setting, 'applied', applied,
  'error', error) order by seqno), '[]') from pg_file_settings where name in ({names})
"""
AUTO = "/postgresql.auto.conf"
# A reload also applies changes that other users have made to the files. Only superusers can read when a file changed.
_EDITED = """
select coalesce(json_agg(f), '[]') from (select distinct sourcefile as f from pg_file_settings) files
where (pg_stat_file(f)).modification > pg_conf_load_time()
"""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "''"


def literal(value: str) -> str:
    """An SQL string literal that does not depend on standard_conforming_strings."""
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{quoted}'" if "\\" in value else f"'{quoted}'"


def rows(server: RemoteServer, names: Sequence[str], *, as_load: bool = False) -> Record:
    """Name -> its row of pg_settings in a new session; None if the server has no such parameter."""
    query = _ROWS.format(row=_ROW, names=_listed(names))
    known: Record = server.load_sql(query) if as_load else server.sql(query, "postgres")
    return {name: known.get(name) for name in names}


def privileges(server: RemoteServer, names: Sequence[str], superuser: bool) -> Record:
    """{"reload", "files", "of": {name: {"set", "alter"}}}: whether the role may reload, read pg_file_settings, and set
    each parameter."""
    functions: Record = server.sql(_FUNCTIONS, "postgres")
    if superuser or server.major < GRANTS:
        return {**functions, "of": {name: {"set": superuser, "alter": superuser} for name in names}}
    return {**functions, "of": server.sql(_PRIVILEGES.format(names=_listed(names)), "postgres") or {}}


def scope(name: str, value: Any, row: Optional[Record], privileges: Record, role: str, major: int) -> str:
    """Pure. SESSION or SYSTEM: how this role can set a parameter. Unplannable if it cannot, with the missing grant."""
    field = f"postgresql.{name}"
    if row is None:
        raise Unplannable(field, value, "parameters that the server knows; load the library of an extension first")
    context, may = row["context"], privileges["of"].get(name) or {"set": False, "alter": False}
    if context in ("internal", "postmaster"):
        raise Unplannable(field, value, "parameters that take effect without a restart: runs do not restart the server")
    if context in ("backend", "superuser-backend"):
        raise Unplannable(field, value, "parameters that SQL can set: this one is fixed when a session connects")
    if context == "user" or (context == "superuser" and may["set"]):
        return SESSION
    if context == "superuser":
        raise Unplannable(
            field, value, "parameters that the role may set", _grant(f"SET ON PARAMETER {name}", role, major)
        )
    missing = [
        *([f"ALTER SYSTEM ON PARAMETER {name}"] if not may["alter"] else []),
        *(["EXECUTE ON FUNCTION pg_reload_conf()"] if not privileges["reload"] else []),
        *(
            ["SELECT ON pg_file_settings", "EXECUTE ON FUNCTION pg_show_all_file_settings()"]
            if not privileges["files"]
            else []
        ),
    ]
    if missing:
        hint = "; ".join(_grant(each, role, major) for each in missing)
        raise Unplannable(field, value, "parameters that the role may set: this one applies to the whole server", hint)
    return SYSTEM


def scope_or_by_hand(name: str, value: Any, row: Optional[Record], privileges: Record, role: str, major: int) -> str:
    """Pure. As `scope`, but BY_HAND for a parameter that this role cannot set but a configuration file can."""
    try:
        return scope(name, value, row, privileges, role, major)
    except Unplannable:
        if row is None or row["context"] == "internal":
            raise
    try:
        normalise(str(value), row["unit"] or "", row["vartype"])
    except ValueError:
        raise Unplannable(f"postgresql.{name}", value, f"values of type {row['vartype']}") from None
    return BY_HAND


def _grant(what: str, role: str, major: int) -> str:
    if "PARAMETER" in what and major < GRANTS:
        return f"PostgreSQL {major} lets only superusers set it"
    return f"GRANT {what} TO {quoted(role)}"


def check_loaded(server: RemoteServer) -> None:
    """HostFailure if a reload would apply changes of another user."""
    edited = server.sql(_EDITED, "postgres")
    if edited:
        hint = "reload it yourself first: otherwise the run would apply this change"
        raise HostFailure(f"{edited[0]} of {server.label} was changed after the last reload", hint)


def lines(server: RemoteServer, names: Sequence[str]) -> list[Record]:
    """Lines of the configuration files that set these parameters, in the order in which they are read."""
    file_lines: list[Record] = server.sql(_FILE.format(names=_listed(names)), "postgres")
    return file_lines


def altered(server: RemoteServer, name: str) -> Optional[str]:
    """The value that ALTER SYSTEM has set for a parameter; None if it has set none."""
    values = [line["setting"] for line in lines(server, [name]) if line["file"].endswith(AUTO)]
    return values[-1] if values else None


def set_in_database(role: str, database: str, name: str, value: str) -> str:
    """Pure. The statement that gives sessions of a role in a database this value; `role` is an SQL identifier."""
    parts = [part.strip().strip('"') for part in value.split(",")] if name in LISTS else [value]
    return f"alter role {role} in database {database} set {name} = {', '.join(map(literal, parts))}"


def alter_system(name: str, value: Optional[str]) -> str:
    """Pure. The statement that sets this value for the whole server; None removes it from the file of ALTER SYSTEM."""
    return f"alter system reset {name}" if value is None else f"alter system set {name} = {literal(value)}"


def proofs(
    server: RemoteServer, conf: Mapping[str, str], scopes: Mapping[str, str], session_source: str
) -> list[Proof]:
    """The values in a new session of the load; for those of the whole server also the file that sets them.
    `session_source`: the source in pg_settings of what was set for the sessions of the load."""
    names = list(conf)
    session, system_names = rows(server, names, as_load=True), [name for name in names if scopes[name] == SYSTEM]
    file_lines = lines(server, system_names) if system_names else []
    return [_proof(name, conf[name], scopes[name], session[name], file_lines, session_source) for name in names]


def _proof(
    name: str, expected: str, scope: str, row: Optional[Record], file_lines: Sequence[Record], session_source: str
) -> Proof:
    if row is None:
        return Proof(name, expected, "unknown parameter", False, {"source": "pg_settings of a new session of the load"})
    in_effect = same(name, expected, row)
    evidence: Record = {"source": "pg_settings of a new session of the load", "pg_settings": row}
    if scope == SESSION:
        ok = in_effect and row["source"] == session_source
    elif scope == BY_HAND:
        ok = in_effect
    else:
        last = [line for line in file_lines if line["name"] == name][-1:]
        ok = in_effect and bool(last) and last[0]["file"].endswith(AUTO) and last[0]["applied"] and not last[0]["error"]
        evidence = {**evidence, "source": "pg_settings of a new session of the load, pg_file_settings", "file": last}
    return Proof(name, expected, row["show"] if ok else f"{row['show']} ({row['source']})", bool(ok), evidence)
