"""sysbench's `stdout`: rates, latencies and errors of an SQL test, and tpmC where it is said what a new order is."""

from __future__ import annotations

from collections.abc import Iterator

from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.others.sysbench import Run, parse_sysbench


def measure_sysbench(outputs: Outputs, options: Options) -> list[Measurement]:
    """Nothing of `prepare` and `cleanup`, which report nothing. What a report lacks at most, the fairness of threads,
    is no figure of ours."""
    if options.get("action", "run") != "run":
        return []
    run = parse_sysbench(outputs.get("stdout", b""))
    return distinct([*_rates(run, options), *_latencies(run), *_errors(run)])


def _rates(run: Run, options: Options) -> Iterator[Measurement]:
    loop = f"open loop at {options['rate']} tps" if "rate" in options else "closed loop"
    yield Measurement("tps", run.tps, "tps", "higher", f"without ignored errors, over the total time; {loop}")
    yield Measurement("qps", run.qps, "qps", "higher")
    yield Measurement("transactions", run.transactions, "transactions", "")
    if "new_order_percent" in options:
        share = options["new_order_percent"]
        told = f"60 x tps x {share:g} %, what the script counts as new orders; not an audited tpmC"
        yield Measurement("tpmC", 60 * run.tps * share / 100, "tpmC", "higher", told)


def _latencies(run: Run) -> Iterator[Measurement]:
    for name in ("avg", "min", "max"):
        yield Measurement(f"latency_{name}", getattr(run, f"latency_{name}_ms"), "ms", "lower")
    for percentage, milliseconds in run.percentiles_ms:
        yield Measurement(f"latency_p{percentage:g}", milliseconds, "ms", "lower")


def _errors(run: Run) -> Iterator[Measurement]:
    yield Measurement("ignored_errors", run.ignored_errors, "errors", "lower")
    yield Measurement("ignored_errors_per_s", run.ignored_errors_per_s, "errors/s", "lower")
    yield Measurement("reconnects", run.reconnects, "reconnects", "lower")
