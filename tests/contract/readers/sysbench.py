"""sysbench: run, prepare, failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.others.sysbench import parse_sysbench, parse_sysbench_failure, parse_sysbench_prepare

INTERVAL_NAMES = {"read_per_s": "read", "write_per_s": "write", "other_per_s": "other"}


def run_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_sysbench(raw)
    kinds = ("read", "write", "other", "total")
    latency = {name: getattr(parsed, f"latency_{name}_ms") for name in ("min", "avg", "max", "sum")}
    return asdict(parsed) | {
        "queries": {kind: getattr(parsed, f"queries_{kind}") for kind in kinds},
        "latency_ms": latency | {f"p{percentage:g}": ms for percentage, ms in parsed.percentiles_ms},
        "fairness": {
            "events_avg": parsed.events_avg,
            "events_stddev": parsed.events_stddev,
            "time_avg": parsed.time_avg_s,
            "time_stddev": parsed.time_stddev_s,
        },
        "intervals": [
            {INTERVAL_NAMES.get(name, name): value for name, value in asdict(interval).items()}
            for interval in parsed.intervals
        ],
    }


def failure_values(raw: bytes) -> dict[str, Any]:
    return {"fatal": list(parse_sysbench_failure(raw).fatal), "has_summary": False}


def prepare_values(raw: bytes) -> dict[str, Any]:
    return {"tables": len(parse_sysbench_prepare(raw).tables), "no_summary": True}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "sysbench": run_values,
    "sysbench_error": failure_values,
    "sysbench_prepare": prepare_values,
}
