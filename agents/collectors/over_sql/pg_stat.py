"""Statements for the statistics views of PostgreSQL 10 to 18, each of which returns one line of JSON. Pure."""

from __future__ import annotations

# Settings of the collector's session: it must cost little, never wait long, and leave no trace in log or statistics.
_SESSION = {
    "application_name": "proving_ground",
    "statement_timeout": "5s",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "log_min_duration_statement": "-1",
    "log_statement": "none",
    "pg_stat_statements.track": "none",
}
_IO = (
    "reads", "writes", "writebacks", "extends", "hits", "evictions", "reuses", "fsyncs",
    "read_time", "write_time", "extend_time", "fsync_time",
)  # fmt: skip
_ONE_ROW = {"pg_stat_bgwriter": 10, "pg_stat_wal": 14, "pg_stat_checkpointer": 17}


_CREATE = """
do $$ begin
  if exists (select from pg_settings where name = 'pg_stat_statements.max')
    and exists (select from pg_available_extensions where name = 'pg_stat_statements') then
    create extension if not exists pg_stat_statements;
  end if;
exception when insufficient_privilege then null;
end $$;
"""


def hello(may_install: bool = True) -> str:
    """Set the session up; {"pid", "statements": whether pg_stat_statements can be read}. With `may_install`, create
    that extension if its library is loaded and the role may do it."""
    values = ", ".join(f"('{name}', '{value}')" for name, value in _SESSION.items())
    return f"""
set client_min_messages to warning;
{_CREATE if may_install else ""}
with session as (select count(set_config(name, value, false)) as settings
  from (values {values}) as wanted(name, value) where name in (
    select name from pg_settings where context = 'user' or current_setting('is_superuser')::bool))
select json_build_object('pid', pg_backend_pid(), 'settings', settings,
  'statements', to_regprocedure('pg_stat_statements(boolean)') is not null
    and exists (select from pg_settings where name = 'pg_stat_statements.max')) from session;"""


def end(major: int) -> str:
    """Leave the session as it was at its start. What it did is counted now, and not in the next step."""
    flush = "do 'begin perform pg_stat_force_next_flush(); end';" if major >= 15 else ""
    return f"deallocate sample; {flush} reset all;"


_OTHERS = """select json_build_object('transactions', coalesce(sum(xact_commit + xact_rollback), 0){active_time},
  'active_sessions', case when pg_has_role(current_user, 'pg_read_all_stats', 'usage') then (
    select count(*) from pg_stat_activity where backend_type = 'client backend' and state = 'active'
      and datname <> current_database() and application_name <> 'proving_ground') end)
  from pg_stat_database where datname <> current_database()"""


def statement(major: int, is_shared: bool = False) -> str:
    """The statement of every second: {"at": s since 1970, "wait": {event: backends}, view: {column: number}}. With
    `is_shared` also "pg_stat_database_others": the sums of other databases."""
    views = ["'pg_stat_database', (select to_json(d) from pg_stat_database d where datname = current_database())"]
    views += [f"'{view}', (select to_json(v) from {view} v)" for view, since in _ONE_ROW.items() if major >= since]
    if is_shared:
        active_time = ", 'active_time', coalesce(sum(active_time), 0)" if major >= 14 else ""
        views.append(f"'pg_stat_database_others', ({_OTHERS.format(active_time=active_time)})")
    if major >= 16:
        views.append(f"'pg_stat_io', {_io()}")
    return f"""select json_build_object('at', extract(epoch from clock_timestamp()),
  'wait', (select coalesce(json_object_agg(event, backends), '{{}}') from (
    select coalesce(wait_event_type || ':' || wait_event, 'running') as event, count(*) as backends
    from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() group by 1) as waits),
  {", ".join(views)})"""


def _io() -> str:
    """Rows of pg_stat_io by kind of process, contexts summed, WAL apart; kinds that never did anything left out."""
    sums = ", ".join(f"sum({name}) as {name}" for name in _IO)
    busy = " + ".join(f"coalesce(sum({name}), 0)" for name in _IO[:8])
    who = "backend_type || case object when 'wal' then ' wal' else '' end"
    rows = f"select {who} as who, {sums} from pg_stat_io group by 1 having {busy} > 0"
    return f"(select coalesce(json_object_agg(who, to_json(kinds)), '{{}}') from ({rows}) as kinds)"


def tables() -> str:
    """{schema.table: its rows of pg_stat_user_tables and pg_statio_user_tables} of the database of the load."""
    return """select coalesce(json_object_agg(schemaname || '.' || t.relname,
  json_build_array(to_json(t), to_json(io))), '{}')
  from pg_stat_user_tables t join pg_statio_user_tables io using (relid, schemaname);"""


def statements(texts: bool) -> str:
    """{key: row of pg_stat_statements} of the database of the load; its texts cost a file, and are cut."""
    return f"""select coalesce(json_object_agg(concat_ws('/', userid, queryid, to_json(s) ->> 'toplevel'),
  json_build_array(left(query, 1000), to_json(s))), '{{}}') from pg_stat_statements({str(texts).lower()}) s
  where dbid = (select oid from pg_database where datname = current_database());"""


def clients() -> str:
    """How many other clients are connected."""
    return "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid();"
