"""A step of tpcc: what pgbench reports, by type of transaction, with new orders per minute and the mix that ran."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.measure.pgbench import measure_pgbench
from readers.pgbench.summary import Script, Summary, parse_summary

_SCRIPT = re.compile(r"script:(\d+) (.*)")
# What waits at a terminal is no latency of the server.
_SLEEP = "\\sleep"
_FAILURES = ("failed", "serialization_failures", "deadlock_failures", "retried", "retries")
ABOUT = "rolled back ones included; not comparable with tpmC"
WITHOUT = "without keying and think times"

Scripts = dict[str, Script]


def measure_tpcc(outputs: Outputs, options: Options) -> list[Measurement]:
    """Nothing of a type that did not run. With keying and think times, latencies are means without them."""
    told = [each for each in measure_pgbench(outputs, options) if "statement:" not in each.name]
    summary = parse_summary(outputs.get("stdout", b""))
    scripts = {PurePosixPath(script.name or "").stem: script for script in summary.scripts}
    names = list(scripts)
    if options.get("terminals"):
        told = [*(each for each in told if "latency" not in each.name), *_answers(scripts)]
    own = [*_paces(summary, scripts, options), *_mix(scripts), *_failures(scripts)]
    return distinct([*own, *(_renamed(each, names) for each in told)])


def _renamed(one: Measurement, names: list[str]) -> Measurement:
    """script:2 latency_p95 -> payment latency_p95."""
    found = _SCRIPT.fullmatch(one.name)
    return replace(one, name=f"{names[int(found[1]) - 1]} {found[2]}") if found else one


def _paces(summary: Summary, scripts: Scripts, options: Options) -> Iterator[Measurement]:
    """pgbench has no block for a script that runs alone: the weights say which."""
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
        yield Measurement(f"{name} share", share, "%", "", f"asked for: {100 * (script.weight or 0) / weights:.4g} %")


def _failures(scripts: Scripts) -> Iterator[Measurement]:
    for name, script in scripts.items():
        for kind in _FAILURES:
            value = getattr(script, kind)
            if value is not None:
                yield Measurement(f"{name} {kind}", value, "retries" if kind == "retries" else "transactions", "lower")


def _answers(scripts: Scripts) -> Iterator[Measurement]:
    """Mean latencies without what terminals waited, which pgbench tells of each \\sleep."""
    total, count = 0.0, 0
    for name, script in scripts.items():
        if script.latency_avg_ms is not None and script.transactions_total:
            waited = sum(each.latency_ms for each in script.statements if each.sql.lstrip().startswith(_SLEEP))
            mean = script.latency_avg_ms - waited
            total, count = total + mean * script.transactions_total, count + script.transactions_total
            yield Measurement(f"{name} latency_avg", mean, "ms", "lower", WITHOUT)
    if count:
        yield Measurement("latency_avg", total / count, "ms", "lower", WITHOUT)
