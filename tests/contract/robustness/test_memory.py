"""A long output is read in memory that does not grow with its lines."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from readers.formats import FORMATS

SHORT, LONG = 5_000, 40_000

LINES: dict[str, Callable[[int], str]] = {
    "pgbench-stderr": lambda n: f"progress: {n + 1}.0 s, 712.0 tps, lat 1.402 ms stddev 0.311, 0 failed",
    "pgbench-init": lambda n: f"{n + 1} of 9000000 tuples (1%) done (elapsed 0.01 s, remaining 0.74 s)",
    "pgbench-log": lambda n: f"0 {n} {900 + n % 97} 0 1795221741 {n % 1_000_000}",
    "postgresql-log": lambda n: f"1795221741.{n % 1000:03d} [{n}] LOG:  connection received: host=[local]",
    "sysbench": lambda n: (
        f"[ {n + 1}s ] thds: 2 tps: 71.00 qps: 142.00 (r/w/o: 99.40/28.40/14.20) "
        "lat (ms,95%): 30.26 err/s: 0.00 reconn/s: 0.00"
    ),
}
REPORT = """SQL statistics:
    queries performed:
        read:                            1400
        write:                           400
        other:                           200
        total:                           2000
    transactions:                        100    (9.98 per sec.)
    queries:                             2000   (199.68 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          10.0143s
    total number of events:              100

Latency (ms):
         min:                                    6.42
         avg:                                  100.11
         max:                                  200.33
         95th percentile:                      150.29
         sum:                                10011.12
"""


def output(kind: str, lines: int) -> bytes:
    tail = REPORT if kind == "sysbench" else ""
    return ("\n".join(map(LINES[kind], range(lines))) + "\n" + tail).encode()


def peak(kind: str, raw: bytes) -> int:
    """Bytes that reading takes at most, without those of the output itself."""
    tracemalloc.start()
    parsed = FORMATS[kind].parse(raw)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parsed is not None
    return most


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LINES)
def test_memory_does_not_grow_with_the_lines(kind: str) -> None:
    short, long = (peak(kind, output(kind, lines)) for lines in (SHORT, LONG))

    assert long < 1.2 * short + 100_000
    assert long < 4_000_000


def test_rows_of_progress_are_parsed_again_at_each_iteration() -> None:
    parsed = FORMATS["pgbench-stderr"].parse(output("pgbench-stderr", 3))

    assert len(parsed.progress) == 3  # type: ignore[attr-defined]
    assert [one.t_s for one in parsed.progress] == [1, 2, 3]  # type: ignore[attr-defined]
    assert [one.t_s for one in parsed.progress] == [1, 2, 3]  # type: ignore[attr-defined]
