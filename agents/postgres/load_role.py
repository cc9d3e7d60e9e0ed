"""The role of the load in a private cluster: not a superuser, without access to files and programs of the server.

It owns its databases. The superuser has already prepared what it needs: contrib's extensions, statistics, and
checkpoints from PostgreSQL 15 on. The owner of a database decides what names and strings mean in all of its sessions,
including those of a superuser. SAFE undoes that.
"""

from __future__ import annotations

NAME = "proving_load"
TOOLS = "proving_tools"  # the schema of the extensions, which the superuser owns
# PGOPTIONS of a superuser's sessions: no name resolves to an object of the load, and no backslash ends a string.
SAFE = f"-c search_path=pg_catalog,{TOOLS} -c standard_conforming_strings=on"
PATH_OF_LOAD = f'"$user", public, {TOOLS}'
EXTENSIONS = (
    "do $$ declare known text; begin for known in select name from pg_available_extensions"
    " where name in ('pg_prewarm', 'pg_buffercache', 'pg_stat_statements')"
    " loop execute 'create extension if not exists ' || known; end loop; end $$"
)
RESET = "grant execute on function pg_stat_reset(), pg_stat_reset_single_table_counters(oid) to {role}"


def statements(major: int) -> list[str]:
    """Pure. What makes the role in a new cluster, in its database postgres: a statement a line."""
    roles = ["pg_monitor"] * (major >= 10) + ["pg_checkpoint"] * (major >= 15)
    return [
        f"create role {NAME} login",
        f"alter database postgres owner to {NAME}",
        f"alter role {NAME} set search_path = {PATH_OF_LOAD}",
        *(f"grant {role} to {NAME}" for role in roles),
        *extensions(NAME),
    ]


def extensions(role: str) -> list[str]:
    """Pure. Statements for a database of the load that give it what only a superuser can: extensions, counters."""
    return [
        f"create schema {TOOLS}",
        f"grant usage on schema {TOOLS} to public",
        f"set search_path = {TOOLS}; {EXTENSIONS}",
        RESET.format(role=role),
    ]
