"""Cost of long series: bytes per number, time and memory to store them, and time to read them for a page.

python -m embedded run -- python -m tests.benchmarks.series --hours 12

Real collectors take samples of this machine and pgbench for a minute, and their values are extended to the whole time.
Gauges continue in steps drawn from the observed ones. All others are drawn again for each second, 2 % more or less,
with the decimals of the collector. Nothing repeats.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
import numpy as np
from numpy.typing import NDArray

from agents.build import build_zipapp
from agents.collectors import COLLECTORS
from agents.collectors.base import rounded
from embedded.servers.postgres import bin_dir
from tests.agents.driver import OK, Connection, of

Floats = NDArray[np.float64]
Table = dict[str, Floats]
# What a page shows unasked, and more of what the issue of a long run is: 60 metrics in all.
METRICS = 60
CHART = "memory.memory"
BEGAN = 1795273600.0


def recorded(seconds: int) -> dict[str, Table]:
    """Source -> its columns, of a real run of pgbench on a cluster of its own, with all collectors."""
    with tempfile.TemporaryDirectory(prefix="pg-series-") as root:
        Path(root).chmod(0o755)
        program = Path(root, "agent.pyz")
        build_zipapp(program)
        connection = Connection(program, Path(root, "spool"))
        options = {"builtin": "tpcb-like", "scale": 5, "clients": 8, "jobs": 2, "time_s": seconds, "progress_s": 1}
        spec = {
            "version": 1,
            "target": {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": root, "os_user": ""},
            "settings": {},
            "dataset": {"kind": "pgbench", "options": {"scale": 5}},
            "steps": [{"name": "measure", "kind": "pgbench", "options": options}],
            "collect": {"interval_s": 1, "sources": list(COLLECTORS)},
        }
        events = connection.events(connection.submit(spec), limit_s=seconds + 120)
        connection.close()
    assert of(events, "outcome") == [OK], of(events, "outcome")
    from apps.results.store.fold import table_of

    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for sample in of(events, "sample"):
        by_source[sample["source"]].append(sample)
    return {source: table_of(samples) for source, samples in by_source.items()}


def spun_out(tables: dict[str, Table], seconds: int, metrics: int) -> dict[str, Table]:
    """The first `metrics` columns that moved at all, shown panels first, for so many seconds."""
    from apps.results.store.series import panel_of

    chance = np.random.default_rng(4)
    named = [(source, name) for source, table in tables.items() for name in table if name != "t"]
    moving = [(source, name) for source, name in named if len(np.unique(tables[source][name])) > 2]

    def place(key: tuple[str, str]) -> tuple[bool, bool]:
        panel = panel_of(*key)
        return key not in moving, panel is None or not panel.shown

    picked: dict[str, Table] = {}
    for source, name in sorted(named, key=place)[:metrics]:
        if source not in picked:
            picked[source] = {"t": (np.arange(1.0, seconds + 1) + chance.exponential(0.002, seconds)).round(3)}
        picked[source][name] = _spun_out(tables[source][name], seconds, _is_gauge(source, name), chance)
    return picked


def _is_gauge(source: str, name: str) -> bool:
    column = COLLECTORS[source].column(name) if source in COLLECTORS else None
    return bool(column and column.gauge)


def _spun_out(values: Floats, seconds: int, gauge: bool, chance: np.random.Generator) -> Floats:
    present = values[1:][~np.isnan(values[1:])]
    if len(present) < 2 or (present == present[0]).all():
        return np.full(seconds, present[0] if len(present) else 0.0)
    decimals = max(len(str(value).partition(".")[2].rstrip("0")) for value in present)
    if not gauge:
        drawn = chance.choice(present, seconds) * chance.normal(1, 0.02, seconds)
        return np.array([rounded(value) for value in drawn.tolist()]).round(decimals)
    low, width = present.min(), np.ptp(present)
    walk = present[0] - low + np.cumsum(chance.choice(np.diff(present), seconds))
    return (low + np.abs(np.mod(walk, 2 * width) - width)).round(decimals)


def sizes(tables: dict[str, Table]) -> None:
    """Bytes of a number, by group of columns, as they lie in the database."""
    from apps.results.models import Block

    print(f"  {'source':<12} {'columns':<34} {'count':>5} {'bytes/number':>13}")
    total = count = 0
    kinds: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for block in Block.objects.select_related("series"):
        kind = kinds[block.series.source, block.group or "t"]
        kind[0] += len(bytes(block.packed))
        kind[1] += len(block.columns) * block.samples
        kind[2] = len(block.columns)
    for (source, group), (size, numbers, columns) in kinds.items():
        print(f"  {source:<12} {group:<34} {columns:>5} {size / numbers:>13.2f}")
        total, count = total + size, count + numbers
    plain = sum(table["t"].nbytes * len(table) for table in tables.values())
    print(f"all: {total / 1e6:.2f} MB, {total / count:.2f} bytes per number (float64 would be {plain / 1e6:.1f} MB)")
    print(f"in the table with its indexes: {_table_size() / 1e6:.2f} MB")


def _table_size() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("select sum(pg_total_relation_size(relid)) from pg_partition_tree('results_blocks')")
        return int(cursor.fetchone()[0])


@contextmanager
def database() -> Iterator[None]:
    """A database of its own, with tables and without rows."""
    from django.test.utils import get_runner, setup_test_environment, teardown_test_environment

    setup_test_environment()
    from django.conf import settings

    runner = get_runner(settings)(verbosity=0, interactive=False)
    made = runner.setup_databases()
    try:
        yield
    finally:
        runner.teardown_databases(made)
        teardown_test_environment()


def stored_events(tables: dict[str, Table]) -> Any:
    """A run that has just ended, whose samples are all events, as after a long stop of the server."""
    from django.utils import timezone

    from apps.campaigns.models import Run, RunEvent
    from tests.rows import populate

    run = populate.team()["live_run"]
    run.events.all().delete()
    length = max(len(table["t"]) for table in tables.values())
    span = {"step": "measure", "began": BEGAN, "ended": BEGAN + length}
    RunEvent.objects.create(run=run, seq=1, at=timezone.now(), kind="measured", data={**span, "costs": {}})
    seq = 1
    for begin in range(0, length, 2000):
        rows = [row for at in range(begin, min(begin + 2000, length)) for row in _samples_at(tables, at)]
        events = [RunEvent(run=run, seq=seq + i, at=run.started_at + timedelta(seconds=begin), kind="sample", data=data)
                  for i, data in enumerate(rows, start=1)]  # fmt: skip
        RunEvent.objects.bulk_create(events, batch_size=5000)
        seq += len(rows)
    Run.objects.filter(pk=run.pk).update(last_seq=seq, state=Run.State.ENDED, outcome=Run.Outcome.CANCELLED)
    run.refresh_from_db()
    return run


def _samples_at(tables: dict[str, Table], at: int) -> Iterator[dict[str, Any]]:
    for source, table in tables.items():
        values = {name: float(column[at]) for name, column in table.items() if name != "t" and column[at] == column[at]}
        yield {"step": "measure", "source": source, "t": float(table["t"][at]), "values": values}


def reading_in(run: Any) -> None:
    from apps.results.store import ingest

    count = run.events.filter(kind="sample").count()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before, begun = _memory("VmRSS"), time.perf_counter()
    assert ingest.ingest(run)
    took, peak = time.perf_counter() - begun, _memory("VmHWM") - before
    print(f"read in: {count} events in {took:.1f} s, {1e6 * took / count:.0f} us each, {peak / 1000:.0f} MB at most")


def _memory(name: str) -> int:
    """In kB."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(name))


def folding(run: Any, tables: dict[str, Table]) -> None:
    """What one turn of a run under way takes at the end of it, when its last blocks are nearly full."""
    from apps.results.store import fold
    from apps.results.store.fold import append

    begun = time.perf_counter()
    for source, table in tables.items():
        append(run, "again", source, {name: values[:4000] for name, values in table.items()})
    took = time.perf_counter() - begun
    columns = sum(map(len, tables.values()))
    print(f"packing 4000 samples of {columns} columns: {took:.2f} s")
    run.series.filter(step="again").delete()
    assert fold.fold(run) == 0


def reading(client: Any, what: str, get: Callable[[], Any], times: int) -> float:
    taken, size = [], 0
    get()
    for _ in range(times):
        begun = time.perf_counter()
        answer = get()
        taken.append(1000 * (time.perf_counter() - begun))
        assert answer.status_code == 200
        size = len(answer.content)
    p50, p95 = statistics.median(taken), float(np.percentile(taken, 95))
    print(f"  {what:<52} p50 {p50:>6.1f} ms   p95 {p95:>6.1f} ms   {size / 1000:>6.0f} kB")
    return p95


def pages(run: Any, times: int, length: int) -> bool:
    """Through Django's test client: middleware, session, queries, unpacking, thinning, JSON."""
    from django.test import Client
    from django.urls import reverse

    client = Client()
    client.force_login(run.campaign.created_by)
    figure, page = reverse("run_figure", args=[run.pk]), reverse("run_detail", args=[run.pk])
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("one chart, the whole time", figure, {"panel": CHART}),
        ("one chart, ten minutes", figure, {"panel": CHART, "from": length / 2, "to": length / 2 + 600}),
        ("all charts that are shown unasked, the whole time", figure, {}),
        ("the page around them", page, {}),
        ("the page with its samples as a table", page, {"view": "table"}),
    ]
    timings = [reading(client, what, lambda u=url, q=query: client.get(u, q), times) for what, url, query in requests]
    return timings[0] < 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.series", description=__doc__)
    parser.add_argument("--hours", type=float, default=12, help="of the run, at one sample a second (12)")
    parser.add_argument("--record", type=int, default=60, help="seconds that real collectors look (60)")
    parser.add_argument("--times", type=int, default=40, help="that each page is read (40)")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
    django.setup()
    seconds = round(3600 * options.hours)
    tables = spun_out(recorded(options.record), seconds, METRICS)
    metrics = sum(len(table) - 1 for table in tables.values())
    print(f"series of {seconds} samples x {metrics} metrics, {len(tables)} sources")
    with database():
        run = stored_events(tables)
        reading_in(run)
        folding(run, tables)
        sizes(tables)
        good = pages(run, options.times, seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
