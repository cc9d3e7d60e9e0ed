"""The migration to one run path on a database of a million runs: seconds, longest lock, and rows before and after.

python -m embedded run -- python -m tests.benchmarks.run_path --runs 1000000

It empties the database of the environment. Meanwhile a writer adds events to a run, as a server of the last release
does during an upgrade. Runs are copies of one, with events and artefacts; every hundredth has a part on another host.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import django

BEFORE = "0028_twins"
STEPS = ("0029_events_of_parts", "0030_events_of_parts_once", "0031_one_event_table")
EVENTS, FILES = 6, 2
CHUNK = 50_000
# Modes that block writers of a table.
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
EVENT, FILE = "seq, at, kind, data", "path, size, sha256, content"


def query(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []


def migrate(name: str) -> None:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    MigrationExecutor(connection).migrate([("campaigns", name)])


def fill(runs: int) -> str:
    """Fill the tables of the last release. Returns the id of a run for the writer, which is not compared."""
    from django.core.management import call_command

    from tests.rows.factories import make_campaign

    call_command("migrate", verbosity=0, interactive=False)
    call_command("flush", verbosity=0, interactive=False)
    campaign = make_campaign("running")
    run = campaign.runs.order_by("position")[0]
    campaign.runs.exclude(pk=run.pk).delete()
    migrate(BEFORE)
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
    for table, owner, rows in (("runevent", "run", "run"), ("partevent", "part", "runpart")):
        query(
            f"insert into campaigns_{table} ({owner}_id, {EVENT}) select id, n, now(), 'log',"
            f" jsonb_build_object('message', md5(id::text || n)) from campaigns_{rows}, generate_series(1, {EVENTS}) n"
            " where id <> %s",
            run.pk,
        )
    for table, owner, rows in (("artefact", "run", "run"), ("partartefact", "part", "runpart")):
        query(
            f"insert into campaigns_{table} ({owner}_id, {FILE}) select id, 'out/' || n, 64, repeat('0', 64),"
            f" (md5(id::text) || md5(n::text))::bytea from campaigns_{rows}, generate_series(1, {FILES}) n"
            " where id <> %s",
            run.pk,
        )
    query("vacuum analyze")
    return str(run.pk)


def contents(apart: str, *, is_new: bool) -> dict[str, tuple[int, Any]]:
    """Rows and the sum of their hashes, of runs and of parts; without those of the run `apart`."""
    events, files = ("runevent", "artefact") if is_new else ("partevent", "partartefact")
    tables = {
        "runs": ("run", "campaigns_run::text", "id <> %s"),
        "events of runs": ("runevent", f"concat_ws('|', run_id, {EVENT})", "run_id <> %s"),
        "artefacts of runs": ("artefact", f"concat_ws('|', run_id, {FILE})", "run_id <> %s"),
        "events of parts": (events, f"concat_ws('|', part_id, {EVENT})", "part_id <> %s"),
        "artefacts of parts": (files, f"concat_ws('|', part_id, {FILE})", "part_id <> %s"),
    }
    return {
        name: query(
            f"select count(*), sum(hashtextextended({text}, 0)::numeric) from campaigns_{table} where {rows}",
            apart,
        )[0]
        for name, (table, text, rows) in tables.items()
    }


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
                " where granted and pid = %s and relname like 'campaigns%%' and relkind = 'r' and mode = any(%s)",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    runs = parser.parse_args().runs
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
    django.setup()
    began = time.monotonic()
    apart = fill(runs)
    before = contents(apart, is_new=False)
    print(
        f"filled in {time.monotonic() - began:.0f} s:",
        ", ".join(f"{n:,} {name}" for name, (n, _) in before.items()),
        flush=True,
    )
    for name in STEPS:
        began = time.monotonic()
        with watched(apart) as seen:
            migrate(name)
        print(
            f"{name}: {time.monotonic() - began:.1f} s, longest lock {seen.longest_lock}, "
            f"longest of {seen.inserts:,} inserts {1000 * seen.longest_insert_s:.0f} ms",
            flush=True,
        )
    after = contents(apart, is_new=True)
    different = [name for name in before if before[name] != after[name]]
    print("rows before and after:", f"different: {', '.join(different)}" if different else "the same")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
