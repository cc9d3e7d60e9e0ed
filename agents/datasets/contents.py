"""The contents of a data set's database: its relations, its size, and whether it has changed since its creation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ..errors import WorkloadFailure
from ..host.system import System
from ..records.spool import Record

if TYPE_CHECKING:
    from ..postgres.instance import Target

State = list[Any]  # [relations as in `measured`, rows inserted, updated or deleted since the counters were reset]

STATS_S = 1.0  # before 15 a collector takes the counters of a session that has ended, when it comes to it
SHARED_STATS = 15

_DATABASES = "select json_object_agg(datname, oid::text) from pg_database"
# Schemas of PostgreSQL's own begin with pg_, but for that of the standard.
_RELATIONS = """
select coalesce(json_object_agg(
  regexp_replace(format('%I.%I', n.nspname, c.relname), '^(public|proving_ground_[0-9a-f]{8})[.]', ''),
  json_build_array(pg_relation_filenode(c.oid), pg_relation_size(c.oid), c.reltuples::bigint)), '{}')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'i', 'm') and n.nspname !~ '^(pg_|information_schema$)' and c.relpersistence <> 't'
"""
_TABLESPACES = """
select coalesce(json_object_agg(path, size), '{}') from (
  select pg_tablespace_location(reltablespace) as path, sum(pg_relation_size(oid)) as size
  from pg_class where relkind in ('r', 'i', 'm', 't') and reltablespace <> 0 group by 1) t where path <> ''
"""
_SIZE = "select pg_database_size(current_database())"
_WRITTEN = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_user_tables"
_STATE = f"({_RELATIONS}), ({_WRITTEN})"
# A void is no JSON.
_RESET = "select to_json(pg_stat_reset()::text)"


def databases(cluster: Target) -> dict[str, str]:
    """name -> oid."""
    oids: dict[str, str] = cluster.sql(_DATABASES, "postgres")
    return oids


def databases_and_state(cluster: Target, database: str) -> tuple[dict[str, str], Optional[State]]:
    """The same, and the state of this one, None if it does not exist."""
    try:
        oids, *state = cluster.read(f"select json_build_array(({_DATABASES}), {_STATE})", database)
    except WorkloadFailure:
        return databases(cluster), None
    return oids, state


def orphans(cluster: Target, known: Mapping[str, str]) -> list[Path]:
    """Directories of databases whose creation or removal a crash cut short; `known`: the result of `databases`."""
    oids = set(known.values())
    directories = sorted([*cluster.pgdata.glob("base/*"), *cluster.pgdata.glob("pg_tblspc/*/PG_*/*")])
    return [directory for directory in directories if directory.name.isdigit() and directory.name not in oids]


def measured(cluster: Target, database: str) -> Record:
    """{"size": bytes of all of it, "relations": {name: [file node, bytes, rows as the planner has them]}}."""
    return {"size": cluster.sql(_SIZE, database), "relations": cluster.sql(_RELATIONS, database)}


def sizes(cluster: Target, database: str, home: str) -> dict[str, int]:
    """directory -> bytes of the database there: its cluster's, and those of tablespaces."""
    elsewhere: dict[str, Any] = cluster.sql(_TABLESPACES, database)
    rest = cluster.sql(_SIZE, database) - sum(elsewhere.values())
    return {home: rest, **elsewhere}


def reset_counters(cluster: Target, database: str) -> None:
    cluster.sql(_RESET, database)


def settle_counters(system: System, cluster: Target) -> None:
    """Wait until what sessions that have ended did is counted."""
    if cluster.major < SHARED_STATS:
        system.sleep(STATS_S)


def written(cluster: Target, database: str) -> int:
    """Rows inserted, updated or deleted since the counters were reset."""
    return int(cluster.read(_WRITTEN, database))


def changed(cluster: Target, database: str, made: Record, state: Optional[State] = None) -> str:
    """Describe the changes since its creation; "" if there are none. TRUNCATE counts no rows, but creates a file.
    `state`: of now, if known."""
    now, rows = state or cluster.read(f"select json_build_array({_STATE})", database)
    differing = [name for name in {**now, **made} if now.get(name, [])[:2] != made.get(name, [])[:2]]
    if differing:
        return f"{', '.join(sorted(differing)[:3])} changed"
    return f"{rows} rows were inserted, updated or deleted" if rows else ""
