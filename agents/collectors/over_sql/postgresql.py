"""PostgreSQL's cumulative statistics as rates, and what its backends wait for, over one psql that stays connected.

Names are those of the views. Backends report their counts at most once a second (until 14: every 500 ms, through a
file), so single samples are uneven; totals of a step are exact. The collector's own statement counts as a transaction.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Optional

from ...wire.columns import Columns, columns
from ..base import Collector, NotAvailable, Rates
from . import pg_stat

CONNECT_S, TOTALS_S = 15.0, 5.0
ANSWER_S = 0.2  # of one sample; a later answer is read with the next one
REPORT_S = 1.0  # backends report their counts this often: before the first report a rate would be a false 0
SILENCE_S = 30.0  # after which the collector ends
SETTLE_S = 1.0  # for backends to end, which report their counts then
MOST_ROWS = 50
WAIT = "wait."
_NO_SUM = re.compile(r"id$|^(min|max|mean|stddev)_")
OLDEST = 10
_NUMBERS = (int, float)  # not bool, which is an int

_DATABASE, _OTHERS, _BGWRITER, _CHECKPOINTER, _WAL, _IO = (
    "pg_stat_database.", "pg_stat_database_others.",
    "pg_stat_bgwriter.", "pg_stat_checkpointer.", "pg_stat_wal.", "pg_stat_io.<backend_type>.",
)  # fmt: skip


def _of(view: str, group: str, unit: str, named: dict[str, str], **more: Any) -> Columns:
    return columns(group, unit, {view + name: text for name, text in named.items()}, **more)


_BUFFERS = {
    **_of(
        _BGWRITER,
        "buffers",
        "buffers/s",
        {
            "buffers_checkpoint": "written by checkpoints (until 16)",
            "buffers_clean": "written by the background writer",
            "buffers_backend": "written or extended by backends themselves (until 16)",
            "buffers_alloc": "allocated",
        },
    ),
    **_of(_CHECKPOINTER, "buffers", "buffers/s", {"buffers_written": "written by checkpoints (from 17)"}),
}
_CHECKPOINTS = {
    **_of(
        _BGWRITER,
        "checkpoint time",
        "ms/s",
        {"checkpoint_write_time": "writing (until 16)", "checkpoint_sync_time": "syncing (until 16)"},
    ),
    **_of(
        _CHECKPOINTER,
        "checkpoint time",
        "ms/s",
        {"write_time": "writing (from 17)", "sync_time": "syncing (from 17)"},
    ),
    **_of(_BGWRITER, "stopped cleaning", "1/s", {"maxwritten_clean": "rounds cut short by bgwriter_lru_maxpages"}),
}
_OF_IO = {
    "reads": "read",
    "writes": "written",
    "writebacks": "flushes requested from the kernel",
    "extends": "added to relations",
    "hits": "found in shared buffers",
    "evictions": "evicted from shared buffers",
    "reuses": "reused in a ring",
    "fsyncs": "fsync calls",
}
_TIMES_OF_IO = {"read_time": "reading", "write_time": "writing", "extend_time": "extending", "fsync_time": "syncing"}


class PostgreSQL(Collector):
    name = "postgresql"
    help = "Wait events of client backends, and pg_stat_database, wal, bgwriter, checkpointer and io each second"
    needs_postgres = True
    late = True
    columns = {
        **columns(
            "wait events",
            "backends",
            {f"{WAIT}<event>": "client backends that wait for it; running: without a wait"},
            gauge=True,
            shown=True,
            stacked=True,
        ),
        **_of(
            _DATABASE, "transactions", "1/s", {"xact_commit": "committed", "xact_rollback": "rolled back"}, shown=True
        ),
        **_of(
            _DATABASE,
            "blocks",
            "blocks/s",
            {"blks_hit": "found in shared buffers", "blks_read": "requested from the kernel"},
        ),
        **_of(_DATABASE, "rows read", "rows/s", {"tup_returned": "read", "tup_fetched": "fetched by index scans"}),
        **_of(
            _DATABASE,
            "rows changed",
            "rows/s",
            {"tup_inserted": "inserted", "tup_updated": "updated", "tup_deleted": "deleted"},
        ),
        **_of(_DATABASE, "temporary files", "B/s", {"temp_bytes": "written to temporary files"}, better="lower"),
        **_of(
            _DATABASE,
            "conflicts",
            "1/s",
            {"deadlocks": "deadlocks", "conflicts": "queries cancelled on a standby", "temp_files": "temporary files"},
            better="lower",
        ),
        **_of(
            _DATABASE,
            "time of sessions",
            "ms/s",
            {
                "active_time": "executing statements",
                "idle_in_transaction_time": "idle in a transaction",
                "blk_read_time": "reading blocks, with track_io_timing",
                "blk_write_time": "writing blocks, with track_io_timing",
            },
        ),
        **_of(
            _DATABASE, "connections", "backends", {"numbackends": "connected, those of the agent included"}, gauge=True
        ),
        **_of(_OTHERS, "other databases", "1/s", {"transactions": "committed or rolled back in other databases"}),
        **_of(
            _OTHERS,
            "time of sessions in other databases",
            "ms/s",
            {"active_time": "executing statements in other databases (from 14)"},
        ),
        **_of(
            _OTHERS,
            "active sessions in other databases",
            "backends",
            {"active_sessions": "executing a statement, if the role may read it"},
            gauge=True,
        ),
        **_of(_WAL, "WAL", "B/s", {"wal_bytes": "generated"}, shown=True),
        **_of(_WAL, "WAL records", "1/s", {"wal_records": "generated", "wal_fpi": "full page images"}),
        **_of(
            _WAL,
            "WAL writes",
            "1/s",
            {
                "wal_write": "writes (until 17)",
                "wal_sync": "syncs (until 17)",
                "wal_buffers_full": "writes because buffers were full",
            },
        ),
        **_of(
            _WAL,
            "WAL time",
            "ms/s",
            {"wal_write_time": "writing, with track_wal_io_timing (until 17)", "wal_sync_time": "syncing, likewise"},
        ),
        **_BUFFERS,
        **_CHECKPOINTS,
        **{
            f"{_IO}{name}": column
            for name, text in _OF_IO.items()
            for column in columns(f"pg_stat_io {name}", "1/s", {name: f"{text}, by a kind of process"}).values()
        },
        **{
            f"{_IO}{name}": column
            for name, text in _TIMES_OF_IO.items()
            for column in columns(f"pg_stat_io {name}", "ms/s", {name: f"{text}, by a kind of process"}).values()
        },
    }

    def start(self) -> None:
        cluster = self.subject.cluster
        if cluster is None:
            raise NotAvailable("this run has no PostgreSQL")
        if cluster.major < OLDEST:
            raise NotAvailable(
                f"PostgreSQL {cluster.version} has too few statistics views; {OLDEST} or later is needed"
            )
        self._cluster, self._psql = cluster, cluster.connect()
        self._rates, self._events, self._cost = Rates(), set[str](), 0.0
        self._sent_at: Optional[float] = None
        try:
            hello = self._psql.need(pg_stat.hello(cluster.may_install), CONNECT_S)
            self._pids, self._has_statements = [self._psql.pid, int(hello["pid"])], hello["statements"]
            self._psql.ask(f"prepare sample as {pg_stat.statement(cluster.major, cluster.is_shared)};")
            self._before = self._all(texts=False)
        except NotAvailable:
            cluster.disconnect()
            raise
        self._first_at = self._counted_at = self._before["views"]["at"]
        self._count(self._before["views"])

    def sample(self) -> dict[str, float]:
        """Return nothing while the server does not answer. The next sample covers that time as well."""
        row = self._fetch(ANSWER_S)
        return {} if row is None else {**self._count(row), **self._waits(row["wait"])}

    def _fetch(self, limit_s: float) -> Optional[dict[str, Any]]:
        if self._sent_at is None:
            self._psql.ask("execute sample;", 1)
            self._sent_at = self.system.mono()
        row: Optional[dict[str, Any]] = self._psql.answer(limit_s)
        if row is None and self.system.mono() - self._sent_at > SILENCE_S:
            self._psql.kill()  # its end would have to be waited for, during the load
            self._cluster.disconnect()
            raise NotAvailable(f"PostgreSQL did not answer for {SILENCE_S:g} s")
        self._sent_at = None if row is not None else self._sent_at
        return row

    def _count(self, row: dict[str, Any]) -> dict[str, float]:
        by_kind: dict[str, dict[str, float]] = {"": {}, "gauge": {}, "counter": {}}
        for name, value in flatten(row).items():
            by_kind[_declared(name)][name] = value
        gauges, counts = by_kind["gauge"], by_kind["counter"]
        rates = self._rates.of(counts, row["at"])
        since, self._counted_at = self._counted_at, row["at"]
        if since < self._first_at + REPORT_S:
            return gauges
        # Counters that are 0 are left out: views of newer versions have hundreds of them.
        return {**{name: rate for name, rate in rates.items() if counts[name]}, **gauges}

    def _waits(self, waits: dict[str, int]) -> dict[str, float]:
        """Once sampled, an event is always reported: 0 waiting backends is a value as well."""
        self._events |= set(waits)
        return {WAIT + event: float(waits.get(event, 0)) for event in sorted(self._events)}

    def finish(self) -> dict[str, Any]:
        try:
            self._settle()
            totals = _totals(self._before, self._all(texts=True))
            self._psql.ask(pg_stat.end(self._cluster.major))
        except NotAvailable:
            self._cluster.disconnect()
            raise
        finally:
            self._cost = self.apart_cpu_s()
            self._pids = []
        return totals

    def _settle(self) -> None:
        deadline = self.system.mono() + SETTLE_S
        if self._sent_at is not None and self._fetch(SETTLE_S) is None:
            raise NotAvailable(f"PostgreSQL did not answer within {SETTLE_S:g} s of the end of the load")
        while self._psql.need(pg_stat.clients(), TOTALS_S) and self.system.mono() < deadline:
            self.system.sleep(0.005)
        if self.subject.cluster and self.subject.cluster.major < 15:
            self.system.sleep(0.6)  # the statistics collector writes its file every 500 ms

    def _all(self, texts: bool) -> dict[str, Any]:
        rows = self._psql.need(pg_stat.statements(texts), TOTALS_S) if self._has_statements else {}
        tables = self._psql.need(pg_stat.tables(), TOTALS_S)
        return {"views": self._psql.need("execute sample;", TOTALS_S), "tables": tables, "statements": rows}

    def apart_cpu_s(self) -> float:
        return max(self._cost, sum(self.system.cpu_s(pid) for pid in self._pids))


@lru_cache(maxsize=None)
def _declared(name: str) -> str:
    """ "gauge" or "counter"; "" for what has no column."""
    column = PostgreSQL.column(name)
    return "" if column is None else "gauge" if column.gauge else "counter"


def flatten(views: dict[str, Any]) -> dict[str, float]:
    """Pure. {"pg_stat_wal.wal_bytes": n, "pg_stat_io.checkpointer.writes": n, ...}."""
    flat: dict[str, float] = {}
    for view, row in views.items():
        if view.startswith("pg_stat_"):
            rows = row.items() if view == "pg_stat_io" else [("", row or {})]
            for backend_type, values in rows:
                prefix = f"{view}.{backend_type}." if backend_type else f"{view}."
                for name, value in values.items():
                    if type(value) in _NUMBERS:
                        flat[prefix + name] = float(value)
    return flat


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if type(value) in _NUMBERS}


def _grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    """Growth of sums and counts only: a difference of two means is not a mean."""
    old, new = _numbers(before), _numbers(after)
    grown = {name: value - old.get(name, 0) for name, value in new.items() if not _NO_SUM.search(name)}
    return {name: round(growth, 3) for name, growth in grown.items() if growth}


def _totals(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """{"seconds", "views": {view.column: growth}, "tables": [...], "statements": [...]}: the most active first."""
    old, new = flatten(before["views"]), flatten(after["views"])
    views = {name: round(value - old.get(name, 0.0), 3) for name, value in new.items() if value != old.get(name, 0.0)}
    tables = [{"table": name, **_merged(before["tables"].get(name), rows)} for name, rows in after["tables"].items()]
    statements = [
        {"query": row[0], **_grown((before["statements"].get(key) or [None, {}])[1], row[1])}
        for key, row in after["statements"].items()
    ]
    return {
        "seconds": round(after["views"]["at"] - before["views"]["at"], 3),
        "views": views,
        "tables": _most(tables, ("heap_blks_hit", "heap_blks_read", "idx_blks_hit", "idx_blks_read")),
        "statements": _most(statements, ("total_exec_time", "total_time")),
    }


def _merged(before: Optional[list[Any]], after: list[Any]) -> dict[str, float]:
    merged: dict[str, float] = {}
    for old, new in zip(before or [{}, {}], after):
        merged.update(_grown(old, new))
    return merged


def _most(rows: list[dict[str, Any]], measures: tuple[str, ...]) -> list[dict[str, Any]]:
    def activity(row: dict[str, Any]) -> float:
        return sum(float(row.get(name, 0)) for name in measures)

    return sorted((row for row in rows if len(row) > 1), key=activity, reverse=True)[:MOST_ROWS]
