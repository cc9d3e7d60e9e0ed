"""Measurements of sysbench: rates, latencies and errors of a test, and tpmC if the options state which transactions
are new orders."""

from __future__ import annotations

import re
from collections.abc import Iterator

from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.others.sysbench import Run, parse_sysbench
from readers.others.sysbench_system import SystemRun, parse_sysbench_system

_IS_SYSTEM = re.compile(rb"^(?:CPU speed:|Total operations: [0-9])", re.MULTILINE)


def measure_sysbench(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the measurements of `run`. `prepare` and `cleanup` have none. The fairness of threads, which a report
    can lack, is not measured."""
    if options.get("action", "run") != "run":
        return []
    raw = outputs.get("stdout", b"")
    if _IS_SYSTEM.search(raw):
        return list(_system(parse_sysbench_system(raw)))
    run = parse_sysbench(raw)
    return distinct([*_rates(run, options), *_latencies(run), *_errors(run)])


def _system(run: SystemRun) -> Iterator[Measurement]:
    """Yield the measurements of the tests `cpu` and `memory`."""
    yield Measurement("events_per_s", run.events_per_s, "events/s", "higher", run.test)
    if run.mib_per_s is not None:
        blocks = f"{run.operation}, blocks of {run.block_size}"
        yield Measurement("throughput", run.mib_per_s, "MiB/s", "higher", blocks)
    yield from _latencies(run)


def _rates(run: Run, options: Options) -> Iterator[Measurement]:
    loop = f"open loop at {options['rate']} tps" if "rate" in options else "closed loop"
    yield Measurement("tps", run.tps, "tps", "higher", f"without ignored errors, over the total time; {loop}")
    yield Measurement("qps", run.qps, "qps", "higher")
    yield Measurement("transactions", run.transactions, "transactions", "")
    if "new_order_percent" in options:
        share = options["new_order_percent"]
        definition = f"60 x tps x {share:g} %, what the script counts as new orders; not an audited tpmC"
        yield Measurement("tpmC", 60 * run.tps * share / 100, "tpmC", "higher", definition)


def _latencies(run: Run | SystemRun) -> Iterator[Measurement]:
    for name in ("avg", "min", "max"):
        yield Measurement(f"latency_{name}", getattr(run, f"latency_{name}_ms"), "ms", "lower")
    for percentage, milliseconds in run.percentiles_ms:
        yield Measurement(f"latency_p{percentage:g}", milliseconds, "ms", "lower")


def _errors(run: Run) -> Iterator[Measurement]:
    yield Measurement("ignored_errors", run.ignored_errors, "errors", "lower")
    yield Measurement("ignored_errors_per_s", run.ignored_errors_per_s, "errors/s", "lower")
    yield Measurement("reconnects", run.reconnects, "reconnects", "lower")
