"""sysbench's report: rates, latencies, errors, and tpmC where the workload says what a new order is."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.formats.sysbench import Run, parse_sysbench
from apps.results.measure.figures import Measurement, Options, Outputs, distinct


def measure_sysbench(outputs: Outputs, options: Options) -> list[Measurement]:
    """Nothing of `prepare` and `cleanup`, which report nothing."""
    if options.get("action", "run") != "run":
        return []
    run = parse_sysbench(outputs.get("stdout", b""))
    return distinct([*_rates(run, options), *_latencies(run), *_errors(run)])


def _rates(run: Run, options: Options) -> Iterator[Measurement]:
    loop = f"open loop at {options['rate']} tps" if "rate" in options else "closed loop"
    yield Measurement("tps", run.tps, "tps", "higher", f"without ignored errors, over the total time; {loop}")
    yield Measurement("qps", run.qps, "queries/s", "higher")
    yield Measurement("transactions", run.transactions, "transactions", "")
    if "new_order_percent" in options:
        share = options["new_order_percent"]
        told = f"60 x tps x {share:g} %, what the script counts as new orders; not an audited tpmC"
        yield Measurement("tpmC", 60 * run.tps * share / 100, "tpmC", "higher", told)


def _latencies(run: Run) -> Iterator[Measurement]:
    for name in ("avg", "min", "max"):
        yield Measurement(f"latency_{name}", getattr(run, f"latency_{name}_ms"), "ms", "lower")
    for percentage, milliseconds in run.percentiles_ms[:1]:
        yield Measurement("latency_percentile", milliseconds, "ms", "lower", f"{percentage:g}th percentile")


def _errors(run: Run) -> Iterator[Measurement]:
    yield Measurement("errors", run.ignored_errors, "errors", "lower", "ignored errors")
    yield Measurement("errors_per_s", run.ignored_errors_per_s, "errors/s", "lower", "ignored errors")
    yield Measurement("reconnects", run.reconnects, "reconnects", "lower")
