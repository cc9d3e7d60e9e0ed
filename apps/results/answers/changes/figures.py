"""The figures in which levels are compared: their sources, titles, units and groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from agents.collectors.per_transaction import PER_TRANSACTION

LATENCY, CPU, MEMORY, IO = "throughput and latency", "CPU", "memory", "I/O"
WAL, WAITS, PLANNER, NETWORK = "WAL", "locks and waits", "planner", "network"
GROUPS = (LATENCY, CPU, MEMORY, IO, WAL, WAITS, PLANNER, NETWORK)
# In percent of the time of active backends; smaller events are left out.
LEAST_SHARE = 1.0
_WAIT, _RUNNING = "wait.", "wait.running"
_IDLE = re.compile(r"wait\.(Client:ClientRead|Activity:.+)")
_OF_WAL = re.compile(r"wait\.(IO:(?i:wal).+|LWLock:(?i:wal).+|IPC:SyncRep)")
WAL_WAITS, HIT_RATIO, IPC = "wal_waits", "hit_ratio", "ipc"

Kind = Literal["count", "gauge", "share"]
Data = Mapping[str, Mapping[str, float]]  # as in StepMeans: collector -> column -> mean


@dataclass(frozen=True)
class WatchedFigure:
    """One figure of a step.

    A "count" is per transaction, or per second for loads without transactions; a "share" is in percent, so it
    changes by points. `columns`: a pattern of the columns of `source` to be summed."""

    key: str
    title: str
    group: str
    unit: str
    kind: Kind
    source: str = ""
    columns: str = ""
    factor: float = 1.0

    def uses(self, column: str) -> bool:
        return re.fullmatch(self.columns, column) is not None

    @property
    def is_ratio(self) -> bool:
        return self.kind != "share"


def _counts(
    group: str, source: str, named: Mapping[str, tuple[str, str]], factor: float = 1.0
) -> Iterator[WatchedFigure]:
    """From column pattern -> (title, unit)."""
    for columns, (title, unit) in named.items():
        yield WatchedFigure(f"{source}.{columns}", title, group, unit, "count", source, columns, factor)


def _gauges(
    group: str, source: str, unit: str, named: Mapping[str, str], kind: Kind = "gauge"
) -> Iterator[WatchedFigure]:
    for columns, title in named.items():
        yield WatchedFigure(f"{source}.{columns}", title, group, unit, kind, source, columns)


# Title and group of the figures per transaction. Unit, columns and factor are in their declaration.
_PER_TRANSACTION = {
    "cpu_per_transaction": ("CPU time of PostgreSQL", CPU),
    "host_cpu_per_transaction": ("CPU time of the host", CPU),
    "context_switches_per_transaction": ("context switches", CPU),
    "page_faults_per_transaction": ("page faults", MEMORY),
    "blocks_read_per_transaction": ("blocks read", IO),
    "blocks_hit_per_transaction": ("blocks hit", IO),
    "wal_per_transaction": ("WAL", WAL),
    "fsyncs_per_transaction": ("fsyncs", WAL),
}
_DB, _WAL_VIEW = r"pg_stat_database\.", r"pg_stat_wal\."
COLLECTED: tuple[WatchedFigure, ...] = (
    *(
        WatchedFigure(each.name, title, group, each.unit, "count", each.collector, each.columns, each.factor)
        for each in PER_TRANSACTION.values()
        for title, group in [_PER_TRANSACTION[each.name]]
    ),
    *_counts(CPU, "cpu", {"intr": ("interrupts", "interrupts"), "processes": ("forks", "forks")}),
    *_gauges(CPU, "cpu", "%", {"user": "CPU in user mode", "system": "CPU in the kernel"}, "share"),
    *_gauges(CPU, "cpu", "processes", {"procs_running": "run queue"}),
    *_gauges(CPU, "pressure", "%", {r"cpu\.some": "CPU pressure"}, "share"),
    *_gauges(CPU, "frequency", "MHz", {"mean": "CPU clock"}),
    WatchedFigure(IPC, "instructions per cycle", CPU, "", "gauge"),
    *_counts(
        CPU,
        "perf",
        {
            "cycles": ("cycles", "cycles"),
            "instructions": ("instructions", "instructions"),
            "LLC-load-misses": ("last cache misses", "misses"),
            "context-switches": ("context switches of PostgreSQL", "switches"),
            "cpu-migrations": ("CPU migrations of PostgreSQL", "migrations"),
        },
    ),
    *_gauges(
        MEMORY,
        "memory",
        "kB",
        {
            "PageTables": "page tables",
            "AnonPages": "memory of processes",
            "Cached": "page cache",
            "Shmem": "shared memory",
            "Slab": "kernel caches",
            "AnonHugePages": "anonymous huge pages",
            "ShmemHugePages": "shared transparent huge pages",
        },
    ),
    *_counts(
        MEMORY,
        "memory",
        {
            "pgmajfault": ("major page faults", "faults"),
            "pgscan": ("pages scanned for reclaim", "pages"),
            "pswpin|pswpout": ("pages swapped", "pages"),
            "compact_stall": ("stalls for compaction", "stalls"),
            "thp_fault_alloc": ("huge pages allocated at a fault", "pages"),
        },
    ),
    *_gauges(MEMORY, "pressure", "%", {r"memory\.some": "memory pressure"}, "share"),
    *_gauges(MEMORY, "processes", "kB", {"unshared": "PostgreSQL's private memory"}),
    *_counts(
        MEMORY,
        "perf",
        {
            "dTLB-load-misses": ("dTLB misses", "misses"),
            "node-load-misses": ("remote loads", "loads"),
            "page-faults": ("page faults of PostgreSQL", "faults"),
        },
    ),
    *_counts(
        MEMORY,
        "numa",
        {
            r"<node>\.other_node": ("pages from a remote node", "pages"),
            r"<node>\.numa_miss": ("NUMA misses", "pages"),
        },
    ),
    *_counts(IO, "disk", {"read_iops": ("disk reads", "reads"), "write_iops": ("disk writes", "writes")}),
    *_counts(IO, "disk", {"read_mb_s": ("read from disks", "kB"), "write_mb_s": ("written to disks", "kB")}, 1000.0),
    *_gauges(IO, "disk", "ms", {"r_await": "disk read latency", "w_await": "disk write latency"}),
    *_gauges(IO, "disk", "requests", {"aqu_sz": "disk queue"}),
    *_gauges(IO, "disk", "%", {"util": "disk utilisation"}, "share"),
    *_gauges(IO, "cpu", "%", {"iowait": "CPU idle during I/O"}, "share"),
    *_gauges(IO, "pressure", "%", {r"io\.some": "I/O pressure"}, "share"),
    *_gauges(IO, "memory", "kB", {"Dirty": "dirty page cache", "Writeback": "page cache in write-back"}),
    *_counts(
        IO,
        "postgresql",
        {
            r"pg_stat_bgwriter\.buffers_checkpoint|pg_stat_checkpointer\.buffers_written": (
                "buffers written by checkpoints",
                "buffers",
            ),
            r"pg_stat_bgwriter\.buffers_clean": ("buffers written by the background writer", "buffers"),
            r"pg_stat_bgwriter\.buffers_backend|pg_stat_io\.client backend\.writes": (
                "buffers written by backends",
                "buffers",
            ),
            r"pg_stat_bgwriter\.buffers_alloc": ("buffers allocated", "buffers"),
            _DB + "temp_bytes": ("temporary files", "B"),
            _DB + "blk_read_time": ("time in block reads", "ms"),
        },
    ),
    WatchedFigure(HIT_RATIO, "buffer hit ratio", IO, "%", "share"),
    *_counts(
        WAL,
        "postgresql",
        {
            _WAL_VIEW + "wal_records": ("WAL records", "records"),
            _WAL_VIEW + "wal_fpi": ("full page images", "images"),
            _WAL_VIEW + r"wal_write|pg_stat_io\..+ wal\.writes": ("WAL writes", "writes"),
            _WAL_VIEW + "wal_buffers_full": ("WAL writes for full buffers", "writes"),
            _WAL_VIEW + r"wal_sync_time|pg_stat_io\..+ wal\.fsync_time": ("time in WAL syncs", "ms"),
        },
    ),
    WatchedFigure(WAL_WAITS, "waits for WAL", WAITS, "%", "share"),
    *_counts(WAITS, "postgresql", {_DB + "deadlocks": ("deadlocks", "deadlocks")}),
    *_counts(WAITS, "postgresql", {_DB + "idle_in_transaction_time": ("idle in transaction", "ms")}),
    *_counts(
        PLANNER,
        "postgresql",
        {_DB + "tup_returned": ("rows read", "rows"), _DB + "tup_fetched": ("rows fetched by index", "rows")},
    ),
    *_counts(NETWORK, "network", {"rx_mb_s": ("received", "kB"), "tx_mb_s": ("sent", "kB")}, 1000.0),
    *_counts(NETWORK, "network", {"RetransSegs": ("TCP retransmissions", "segments")}),
)
# Measurements of tools -> title and group.
MEASURED: Mapping[str, tuple[str, str]] = {
    "tps": ("TPS", LATENCY),
    "latency_avg": ("mean latency", LATENCY),
    "latency_p50": ("p50 latency", LATENCY),
    "latency_p95": ("p95 latency", LATENCY),
    "latency_p99": ("p99 latency", LATENCY),
    "latency_p99.9": ("p99.9 latency", LATENCY),
    "latency_stddev": ("latency deviation", LATENCY),
    "execution_mean": ("execution time", LATENCY),
    "planning_mean": ("planning time", PLANNER),
    "plan_shapes": ("different plans", PLANNER),
    "shared_hit_mean": ("blocks hit by the query", IO),
    "shared_read_mean": ("blocks read by the query", IO),
}


def collected(data: Data, seconds: float, transactions: float) -> dict[str, float]:
    """Return the figures of one run by key, without those whose columns are missing. `transactions`: 0 for a load
    that does not count them."""
    values = {}
    for figure in COLLECTED:
        own = [mean for name, mean in data.get(figure.source, {}).items() if figure.uses(name)]
        if own:
            each = seconds / transactions if figure.kind == "count" and transactions > 0 else 1.0
            values[figure.key] = figure.factor * sum(own) * each
    return values | _hit_ratio(data) | _ipc(data) | waits(data)


def _hit_ratio(data: Data) -> dict[str, float]:
    own = data.get("postgresql", {})
    hit, read = (own.get(f"pg_stat_database.blks_{name}", 0.0) for name in ("hit", "read"))
    return {HIT_RATIO: 100 * hit / (hit + read)} if hit + read > 0 else {}


def _ipc(data: Data) -> dict[str, float]:
    """Return instructions per cycle of the whole step. A mean of ratios would weight idle seconds like busy ones."""
    own = data.get("perf", {})
    return {IPC: own["instructions"] / own["cycles"]} if own.get("cycles") and "instructions" in own else {}


def waits(data: Data) -> dict[str, float]:
    """Return wait.EVENT -> its share of the time of active backends, in percent. Idle backends wait for their client
    and do not count."""
    backends = {
        name: mean
        for name, mean in data.get("postgresql", {}).items()
        if name.startswith(_WAIT) and not _IDLE.fullmatch(name)
    }
    active = sum(backends.values())
    if active <= 0:
        return {}
    shares = {name: 100 * mean / active for name, mean in backends.items()}
    return shares | {WAL_WAITS: sum(share for name, share in shares.items() if _OF_WAL.fullmatch(name))}


def wait_figure(key: str) -> WatchedFigure:
    """Return the figure of one wait event, from a key of `waits`."""
    title = "on CPU, no wait" if key == _RUNNING else f"waits for {key.removeprefix(_WAIT)}"
    return WatchedFigure(key, title, WAITS, "%", "share", "postgresql")


def is_wait(key: str) -> bool:
    return key.startswith(_WAIT)
