"""Time and memory to reduce a log of transactions on a host, and the accuracy of its percentiles.

python -m tests.benchmarks.reduction --lines 10000000

First it generates a log like that of eight threads of pgbench, with two scripts, a rate, tries, and transactions that
failed or were skipped. The agent's own code reduces it in a separate process; the sorted values give exact percentiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from agents.wire.histogram import Histogram
from agents.workloads.transaction_log import FAILURES, LogFiles, Reduction

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
THREADS, BATCH, BEGAN = 8, 250_000, 1_790_000_000


def write_logs(folder: Path, lines: int) -> dict[str, Any]:
    """The log, and what it says: sorted latencies in us, and how many transactions each word befell."""
    import numpy as np

    draw = np.random.default_rng(1)
    exact, outcomes, written = [], Counter[str](), 0
    while written < lines:
        count = min(BATCH, lines - written)
        # Most are quick, some wait for a lock or a checkpoint: a tail of four decades.
        slow = draw.random(count) < 0.002
        latency = np.where(slow, draw.pareto(1.2, count) * 5_000, draw.lognormal(6.2, 0.5, count)).astype(np.int64) + 40
        kinds = draw.choice(5, count, p=[0.996, 0.001, 0.001, 0.001, 0.001])
        exact.append(latency[kinds == 0])
        outcomes.update(FAILURES[kind - 1] for kind in kinds[kinds > 0])
        # Each thread ends 5000 transactions a second.
        place = written // THREADS
        for thread, own in enumerate(np.array_split(np.arange(count), THREADS)):
            text = "".join(_line(thread, place + i, latency[each], kinds[each]) for i, each in enumerate(own))
            with (folder / f"transactions.4711.{thread}").open("a") as file:
                file.write(text)
        written += count
    return {"latency": np.sort(np.concatenate(exact)), "words": outcomes}


def _line(thread: int, number: int, latency: Any, kind: Any) -> str:
    at = number * 200
    entry = FAILURES[kind - 1] if kind else latency
    tries = 2 if kind else 0
    second, us = BEGAN + at // 1_000_000, at % 1_000_000
    return f"{thread} {number} {entry} {number % 2} {second} {us:06d} {number % 97} {tries}\n"


def reduce(folder: Path) -> dict[str, Any]:
    """In this process: seconds, peak memory in bytes, and the summary."""
    begun, cpu = time.perf_counter(), time.process_time()
    reduction = Reduction(rate=True, tries=True)
    LogFiles(folder / "transactions", reduction, print).finish(lambda done: None)
    summary = reduction.as_json(["a", "b"], loop="open", sampling_rate=1)
    size = len(json.dumps(summary))
    return {
        "wall_s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - cpu,
        "peak": _peak(),
        "size": size,
        "summary": summary,
    }


def _peak() -> int:
    """The peak memory of this program in bytes. getrusage would include that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def errors(summary: dict[str, Any], exact: Any) -> dict[float, tuple[float, float, float]]:
    """percentile -> (exact, from the summary, relative error), by the nearest rank."""
    histogram, by_percentile = Histogram.from_json(summary["all"]), {}
    for percent in PERCENTILES:
        value = float(exact[max(1, -(-round(percent * 1000) * len(exact) // 100_000)) - 1])
        by_percentile[percent] = (
            value,
            histogram.percentile(percent),
            abs(histogram.percentile(percent) - value) / value,
        )
    return by_percentile


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.reduction", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--reduce", type=Path, help="only reduce what lies there")
    options = parser.parse_args()
    if options.reduce:
        print(json.dumps(reduce(options.reduce)))
        return 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        exact = write_logs(Path(name), options.lines)
        size = sum(path.stat().st_size for path in Path(name).iterdir())
        argv = [sys.executable, "-m", "tests.benchmarks.reduction", "--reduce", name]
        done = json.loads(subprocess.run(argv, check=True, capture_output=True, timeout=3600).stdout)
    return report(options.lines, size, done, exact)


def report(lines: int, size: int, done: dict[str, Any], exact: dict[str, Any]) -> int:
    """Prints the comparison; 1 when an aim was missed."""
    summary, peak = done["summary"], done["peak"] / 1e6
    print(f"{lines} lines, {size / 1e6:.0f} MB, of {THREADS} threads -> {done['size'] / 1e3:.0f} kB")
    print(f"time: {done['wall_s']:.2f} s ({done['cpu_s']:.2f} s of cpu, {lines / done['cpu_s'] / 1e6:.2f} M lines/s)")
    print(f"peak memory of the process: {peak:.1f} MB (aim < 100)")
    worst = 0.0
    for percent, (value, estimate, error) in errors(summary, exact["latency"]).items():
        name, worst = "max" if percent == 100 else f"p{percent:g}", max(worst, error)
        print(f"  {name:<7} exact {value:>12.0f} us  summary {estimate:>12.1f} us  error {100 * error:.3f} %")
    counted = summary["all"]["words"] == dict(exact["words"]) and summary["all"]["count"] == len(exact["latency"])
    print(f"worst error: {100 * worst:.3f} % (aim <= 1); transactions and words counted: {'all' if counted else 'NOT'}")
    return 0 if worst <= 0.01 and peak < 100 and counted else 1


if __name__ == "__main__":
    sys.exit(main())
