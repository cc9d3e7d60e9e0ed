"""Events and samples by month on a database of a million runs: what the migrations take, and what a month costs.

python -m embedded run -- python -m tests.benchmarks.by_month --runs 1000000

It empties the database of the environment and fills it as the last release leaves it; runs are copies of one, each with
EVENTS events and BLOCKS blocks of samples, and every hundredth has a part on another host. While it migrates, a writer
adds events to a run, as a server of the last release does during an upgrade. Then it writes the events and samples of
as many runs into a month, and compares dropping that month with deleting those of the runs from before.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import django

BEFORE = (("results", "0015_step_stability"), ("campaigns", "0033_read_attempts"))
STEPS = (
    ("campaigns", "0034_month_of_events"),
    ("campaigns", "0035_events_once_per_month"),
    ("campaigns", "0036_events_by_month"),
    ("campaigns", "0037_runs_by_start"),
    ("results", "0016_month_of_blocks"),
    ("results", "0017_blocks_once_per_month"),
    ("results", "0018_blocks_by_month"),
)
EVENTS = 30  # of a run, without samples
BLOCKS = 12  # of a run of a minute: five sources, and groups of the columns of some
CHUNK = 50_000
MONTH = date(2020, 2, 1)
# Modes that block writers of a table.
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
EVENT = "seq, at, kind, data"
BLOCK = 'series_id, "group", columns, first, samples, begin, "end", packed'


def query(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []


def migrate(*targets: tuple[str, str]) -> None:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    MigrationExecutor(connection).migrate(list(targets))


def fill(runs: int) -> str:
    """Fill the tables of the last release. Returns the id of a run for the writer, which is not compared."""
    from django.core.management import call_command

    from tests.rows.factories import make_campaign

    call_command("migrate", verbosity=0, interactive=False)
    call_command("flush", verbosity=0, interactive=False)
    campaign = make_campaign("running")
    run = campaign.runs.order_by("position")[0]
    campaign.runs.exclude(pk=run.pk).delete()
    migrate(*BEFORE)
    names = [
        row[0]
        for row in query(
            "select attname from pg_attribute where attrelid = 'campaigns_run'::regclass"
            " and attnum > 0 and not attisdropped"
        )
    ]
    new = {"id": "gen_random_uuid()", "position": "n", "state": "'ended'", "outcome": "'ok'", "next_tick_at": "null"}
    values = ", ".join(new.get(name, f"run.{name}") for name in names)
    for first in range(1, runs + 1, CHUNK):
        query(
            f"insert into campaigns_run ({', '.join(names)}) select {values} from campaigns_run run,"
            " generate_series(%s, %s) n where run.id = %s",
            *(1000 + first, 1000 + min(first + CHUNK - 1, runs), run.pk),
        )
    query(
        "insert into campaigns_runpart (id, run_id, host_id, role, position, spec, digest, state, outcome, agent_state,"
        " events_offset, events_damaged, last_seq) select gen_random_uuid(), id, host_id, 'server', 0, spec, digest,"
        " 'ended', 'ok', '', 0, 0, 0 from campaigns_run where mod(position, 100) = 0"
    )
    for owner, rows in (("run", "run"), ("part", "runpart")):
        query(f"insert into campaigns_runevent ({owner}_id, {EVENT}) {_events(rows)} where owner.id <> %s", run.pk)
    query(
        "insert into results_series (run_id, step, source, columns, samples)"
        " select id, 'measure', 'memory', '{t,MemFree}', 60 from campaigns_run where id <> %s",
        run.pk,
    )
    query(f"insert into results_block ({BLOCK}) {_blocks()}")
    query("vacuum analyze")
    return str(run.pk)


def _blocks(more: str = "") -> str:
    packed = "decode(repeat(md5(series.id::text || n), 20), 'hex')"
    return (
        f"select series.id, 'group ' || n, '{{MemFree}}'::text[], 0, 60, 0, 59, {packed}{more}"
        f" from results_series series, generate_series(1, {BLOCKS}) n"
    )


def _events(rows: str, more: str = "") -> str:
    return (
        f"select owner.id, n, now(), 'log', jsonb_build_object('message', repeat(md5(owner.id::text || n), 5)){more}"
        f" from campaigns_{rows} owner, generate_series(1, {EVENTS}) n"
    )


def contents(apart: str) -> dict[str, tuple[int, Any]]:
    """Rows and the sum of their hashes: events of runs and of parts, without those of the run `apart`, and blocks."""
    blocks = "results_blocks" if query("select to_regclass('results_blocks')")[0][0] else "results_block"
    samples = query(f"select count(*), sum(hashtextextended(concat_ws('|', id, {BLOCK}), 0)::numeric) from {blocks}")[0]
    return {"blocks": samples} | {
        owner: query(
            f"select count(*), sum(hashtextextended(concat_ws('|', id, {owner}_id, {EVENT}), 0)::numeric)"
            f" from campaigns_runevent where {owner}_id <> %s",
            apart,
        )[0]
        for owner in ("run", "part")
    }


def size(table: str) -> int:
    return int(query("select pg_total_relation_size(%s)", table)[0][0])


def timed(work: Callable[..., Any], *arguments: Any) -> float:
    """Return the seconds that a call takes."""
    began = time.monotonic()
    work(*arguments)
    return time.monotonic() - began


@dataclass
class Watched:
    """Seconds for which a table was locked against writers, and the longest insert meanwhile."""

    locks: dict[str, float] = field(default_factory=dict)
    inserts: int = 0
    longest_insert_s: float = 0.0

    @property
    def longest_lock(self) -> str:
        name = max(self.locks, key=lambda lock: self.locks[lock], default="")
        return f"{self.locks[name]:.3f} s ({name})" if name else "none seen"


@contextmanager
def watched(apart: str) -> Iterator[Watched]:
    """Sample the locks of this process's connection every few milliseconds, and write events, until the block ends."""
    from django.db import connection

    seen, ended = Watched(), threading.Event()
    migrating = query("select pg_backend_pid()")[0][0]

    def sample() -> None:
        since: dict[str, float] = {}
        while not ended.is_set():
            rows = query(
                "select relname || ' ' || mode from pg_locks join pg_class on pg_class.oid = relation"
                " where granted and pid = %s and relname ~ '^(campaigns|results)' and relkind = 'r' and mode = any(%s)",
                migrating,
                list(BLOCKING),
            )
            now, held = time.monotonic(), {row[0] for row in rows}
            since = {lock: since.get(lock, now) for lock in held}
            for lock, began in since.items():
                seen.locks[lock] = max(seen.locks.get(lock, 0.0), now - began)
            ended.wait(0.002)

    def write() -> None:
        while not ended.is_set():
            began = time.monotonic()
            seen.inserts += 1
            query(
                "insert into campaigns_runevent (run_id, seq, at, kind, data) values (%s, %s, now(), 'log', '{}')",
                *(apart, seen.inserts),
            )
            seen.longest_insert_s = max(seen.longest_insert_s, time.monotonic() - began)
            ended.wait(0.01)

    def until_ended(work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            connection.close()

    threads = [threading.Thread(target=until_ended, args=(work,)) for work in (sample, write)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        query("delete from campaigns_runevent where run_id = %s", apart)


def migrate_watched(apart: str) -> bool:
    """Migrate step by step. Returns whether the rows are the same."""
    before = contents(apart)
    for app, name in STEPS:
        began = time.monotonic()
        with watched(apart) as seen:
            migrate((app, name))
        print(
            f"{app} {name}: {time.monotonic() - began:.1f} s, longest lock {seen.longest_lock}, "
            f"longest of {seen.inserts:,} inserts {1000 * seen.longest_insert_s:.0f} ms",
            flush=True,
        )
    is_same = before == contents(apart)
    print("rows before and after:", "the same" if is_same else "different")
    return is_same


def compare_retention(runs: int) -> None:
    """Write the events and blocks of all runs once more, into a month. Then drop it, and delete the others."""
    from apps.infrastructure import months

    rows = {
        months.EVENTS: f"(run_id, {EVENT}, month) {_events('run', ', %s::date')}",
        months.BLOCKS: f"({BLOCK}, month) {_blocks(', %s::date')}",
    }
    for table, selected in rows.items():
        query("select proving_add_month(%s, %s)", table, MONTH)
        seconds = timed(query, f"insert into {table} {selected}", MONTH)
        partition = f"{table}_{MONTH:%Y_%m}"
        print(f"a month of {runs:,} runs: {size(partition) / runs:,.0f} bytes per run, written in {seconds:.0f} s")
        print(f"dropped in {1000 * timed(months.drop, table, MONTH):.0f} ms", flush=True)
    for table, kept in ((months.EVENTS, "campaigns_runevent_kept"), (months.BLOCKS, "results_block")):
        large = size(kept)
        deleted = timed(query, f"delete from {table} where month = %s", months.KEPT)
        vacuumed = timed(query, f"vacuum {kept}")
        print(f"{kept}: deleted row by row in {deleted:.0f} s, vacuumed in {vacuumed:.0f} s, of {large / 1e9:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    runs = parser.parse_args().runs
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
    django.setup()
    began = time.monotonic()
    apart = fill(runs)
    events, blocks = size("campaigns_runevent") / runs, size("results_block") / runs
    print(f"filled in {time.monotonic() - began:.0f} s: {events:,.0f} + {blocks:,.0f} bytes per run", flush=True)
    is_same = migrate_watched(apart)
    events, blocks = size("campaigns_runevent_kept") / runs, size("results_block") / runs
    print(f"after the migrations: {events:,.0f} + {blocks:,.0f} bytes of events and samples per run", flush=True)
    compare_retention(runs)
    raise SystemExit(not is_same)


if __name__ == "__main__":
    main()
