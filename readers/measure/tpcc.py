"""Measurements of TPC-C: pgbench's for each type of transaction, new orders per minute, and the actual mix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.measure.pgbench import measure_pgbench
from readers.pgbench.summary import Script, Summary, parse_summary

_SCRIPT = re.compile(r"script:(\d+) (.*)")
_SLEEP = "\\sleep"
_FAILURES = ("failed", "serialization_failures", "deadlock_failures", "retried", "retries")
ABOUT = "including rolled-back transactions; not comparable with tpmC"
WITHOUT = "without keying and think times"

Scripts = dict[str, Script]


def measure_tpcc(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the measurements. Types that did not run have none. Latencies exclude keying and think times."""
    measured = [
        measurement for measurement in measure_pgbench(outputs, options) if "statement:" not in measurement.name
    ]
    summary = parse_summary(outputs.get("stdout", b""))
    scripts = {PurePosixPath(script.name or "").stem: script for script in summary.scripts}
    names = list(scripts)
    if options.get("terminals"):
        measured = [
            *(measurement for measurement in measured if "latency" not in measurement.name),
            *_latencies(scripts),
        ]
    own = [*_throughput(summary, scripts, options), *_mix(scripts), *_failures(scripts)]
    return distinct([*own, *(_renamed(measurement, names) for measurement in measured)])


def _renamed(one: Measurement, names: list[str]) -> Measurement:
    """Rename a measurement of a script: script:2 latency_p95 -> payment latency_p95."""
    match = _SCRIPT.fullmatch(one.name)
    return replace(one, name=f"{names[int(match[1]) - 1]} {match[2]}") if match else one


def _throughput(summary: Summary, scripts: Scripts, options: Options) -> Iterator[Measurement]:
    """Yield the throughput. pgbench prints no block for a single script: then its name comes from the weights."""
    alone = [name for name, weight in (options.get("weights") or {}).items() if weight]
    tps = scripts["new_order"].tps if "new_order" in scripts else summary.tps if alone == ["new_order"] else None
    if tps is not None:
        yield Measurement("nopm", 60 * tps, "new orders/min", "higher", ABOUT)
    yield Measurement("tpm", 60 * summary.tps, "transactions/min", "higher", "60 x tps")


def _mix(scripts: Scripts) -> Iterator[Measurement]:
    total = sum(script.transactions_total or 0 for script in scripts.values())
    weights = sum(script.weight or 0 for script in scripts.values())
    for name, script in scripts.items() if total and weights else ():
        share = 100 * (script.transactions_total or 0) / total
        yield Measurement(f"{name} share", share, "%", "", f"configured: {100 * (script.weight or 0) / weights:.4g} %")


def _failures(scripts: Scripts) -> Iterator[Measurement]:
    for name, script in scripts.items():
        for kind in _FAILURES:
            value = getattr(script, kind)
            if value is not None:
                yield Measurement(f"{name} {kind}", value, "retries" if kind == "retries" else "transactions", "lower")


def _latencies(scripts: Scripts) -> Iterator[Measurement]:
    r"""Yield mean latencies without the waits of terminals. pgbench reports the waits as the latency of each \sleep."""
    total, count = 0.0, 0
    for name, script in scripts.items():
        if script.latency_avg_ms is not None and script.transactions_total:
            waited = sum(
                statement.latency_ms for statement in script.statements if statement.sql.lstrip().startswith(_SLEEP)
            )
            mean = script.latency_avg_ms - waited
            total, count = total + mean * script.transactions_total, count + script.transactions_total
            yield Measurement(f"{name} latency_avg", mean, "ms", "lower", WITHOUT)
    if count:
        yield Measurement("latency_avg", total / count, "ms", "lower", WITHOUT)
