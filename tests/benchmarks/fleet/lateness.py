"""Triggers in PostgreSQL that record how late each tick begins and each event is stored."""

from __future__ import annotations

import statistics
from typing import Any

NOTES = """
create table bench_tick (at timestamptz default clock_timestamp(), lag_s float8, is_adopted boolean);
create table bench_event (at timestamptz default clock_timestamp(), lag_s float8, run_id uuid);
create function bench_tick() returns trigger language plpgsql as $$
begin
  insert into bench_tick (lag_s, is_adopted)
  values (extract(epoch from clock_timestamp() - old.next_tick_at), old.claimed_until is not null);
  return null;
end $$;
create function bench_event() returns trigger language plpgsql as $$
begin
  insert into bench_event (lag_s, run_id) values (extract(epoch from clock_timestamp() - new.at), new.run_id);
  return null;
end $$;
create trigger bench_tick after update of claim on campaigns_run for each row
  when (old.claim is distinct from new.claim) execute function bench_tick();
create trigger bench_event after insert on campaigns_runevent for each row execute function bench_event();
grant insert on bench_tick, bench_event to public;  -- the server is not their owner
"""


def sql(text: str, *values: object) -> list[Any]:
    """The rows of a statement; none if it returns none."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text, values or None)
        return cursor.fetchall() if cursor.description else []


def quantiles(values: list[float]) -> str:
    """Median, 95th percentile and maximum of seconds, in milliseconds."""
    if len(values) < 2:
        return "too few"
    cuts = statistics.quantiles(values, n=20)
    return f"p50 {cuts[9] * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms, max {max(values) * 1000:.0f} ms"
