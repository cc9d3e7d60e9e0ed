"""The role of the load in a private cluster: not a superuser, without access to files and programs of the server.

It owns its databases. The superuser has already prepared what it needs: contrib's extensions, statistics, and
checkpoints from PostgreSQL 15 on. A script can still leave functions in its database that the agent's own queries
there call.
"""

from __future__ import annotations

NAME = "proving_load"
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
        *(f"grant {role} to {NAME}" for role in roles),
        EXTENSIONS,
        RESET.format(role=NAME),
    ]
