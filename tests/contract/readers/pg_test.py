"""pg_test_fsync and pg_test_timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.postgres.pg_test_fsync import Rate, parse_pg_test_fsync
from readers.postgres.pg_test_timing import parse_pg_test_timing


def fsync_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_pg_test_fsync(raw)
    tables = {"one_8kb": "one_write", "two_8kb": "two_writes", "non_write_fd": "non_write_fd"}
    sizes = parsed.table("open_sync_sizes")
    return {
        "seconds_per_test": parsed.seconds_per_test,
        "o_direct": parsed.o_direct,
        "footnote": parsed.footnote,
        "incomplete": parsed.missing,
        "open_sync_sizes": {method.replace(" * ", "x"): rate_values(rate) for method, rate in sizes.items()},
        "non_synced_write": next(map(rate_values, parsed.table("non_synced_write").values()), None),
    } | {
        name: {method: rate_values(rate) for method, rate in parsed.table(table).items()}
        for name, table in tables.items()
    }


def rate_values(rate: Rate) -> dict[str, Any] | None:
    return None if rate.ops_per_s is None else {"ops_per_s": rate.ops_per_s, "us_per_op": rate.us_per_op}


def timing_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_pg_test_timing(raw)
    histogram = [{"count": one.count, "lt_us": one.below_ns / 1000, "pct": one.percent} for one in parsed.histogram]
    return asdict(parsed) | {"per_loop_ns": parsed.per_loop_ns, "histogram": histogram, "incomplete": parsed.missing}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pg_test_fsync": fsync_values,
    "pg_test_timing": timing_values,
}
